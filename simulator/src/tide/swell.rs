//! A tide that remembers what stood at its highest point.

use crate::tape::{Prim, Request};
use crate::tape::{Recorded, Scope, Storage};
use crate::wire::timeline::{Category, PhaseKind};

use super::rounded;

/// Bytes by category.
pub(super) type ByCategory = [i64; Category::ALL.len()];

/// The request that reached a highest point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crest {
    /// The phase that it is in.
    pub phase: PhaseKind,
    /// The phase's micro-batch.
    pub micro_batch: u32,
    /// Where in the model; of layers that are alike, it names no one.
    pub scope: Scope,
    /// The primitive.
    pub prim: Prim,
}

/// A summary of a stretch of requests, as [`super::Tide`], by category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swell {
    /// Bytes it leaves behind.
    pub net: ByCategory,
    total: i64,
    /// Highest live bytes above those at its start; the categories sum to it.
    pub peak: i64,
    /// What stands there, above what stood at its start.
    pub at: ByCategory,
    /// What got there; none where nothing rises above the start.
    pub crest: Option<Crest>,
}

impl Swell {
    /// No request at all.
    pub const NONE: Self = Self {
        net: [0; Category::ALL.len()],
        total: 0,
        peak: 0,
        at: [0; Category::ALL.len()],
        crest: None,
    };

    /// Requests of one phase.
    pub fn of(record: &Recorded, requests: &[Request], phase: (PhaseKind, u32)) -> Self {
        let mut swell = Self::NONE;
        let mut highest = None;
        for request in requests {
            let storage = &record.storages[request.storage().index()];
            let bytes = rounded(storage.bytes).cast_signed();
            let signed = if request.is_alloc() { bytes } else { -bytes };
            swell.net[storage.category as usize] += signed;
            swell.total += signed;
            if swell.peak < swell.total {
                swell.peak = swell.total;
                swell.at = swell.net;
                highest = Some(storage);
            }
        }
        swell.crest = highest.map(|storage| crest(storage, phase));
        swell
    }

    /// This stretch, and then the next.
    #[must_use]
    pub fn then(mut self, next: &Self) -> Self {
        if self.peak < self.total + next.peak {
            self.peak = self.total + next.peak;
            self.at = core::array::from_fn(|i| self.net[i] + next.at[i]);
            self.crest = next.crest;
        }
        for (net, more) in self.net.iter_mut().zip(next.net) {
            *net += more;
        }
        self.total += next.total;
        self
    }

    /// This stretch, `times` times in a row. Where each leaves something behind, the last is the highest.
    #[must_use]
    pub fn repeat(mut self, times: u64) -> Self {
        let Some(more) = times.checked_sub(1) else { return Self::NONE };
        let more = more.cast_signed();
        if 0 < self.total {
            self.peak += more * self.total;
            for (at, net) in self.at.iter_mut().zip(self.net) {
                *at += more * net;
            }
        }
        for net in &mut self.net {
            *net *= 1 + more;
        }
        self.total *= 1 + more;
        self
    }

    /// Bytes it leaves behind, in all.
    pub(super) const fn total(&self) -> i64 {
        self.total
    }

    /// What another stretch leaves behind, so many times, without its heights.
    pub(super) fn leave(&mut self, other: &Self, times: i64) {
        for (net, more) in self.net.iter_mut().zip(other.net) {
            *net += times * more;
        }
        self.total += times * other.total;
    }

    /// What it leaves behind, as the highest point so far.
    #[must_use]
    pub const fn settled(self) -> Self {
        Self { peak: self.total, at: self.net, crest: None, ..self }
    }

    /// The same stretch in another micro-batch.
    #[must_use]
    pub fn in_micro_batch(mut self, micro_batch: u32) -> Self {
        if let Some(crest) = &mut self.crest {
            crest.micro_batch = micro_batch;
        }
        self
    }
}

fn crest(storage: &Storage, (phase, micro_batch): (PhaseKind, u32)) -> Crest {
    Crest { phase, micro_batch, scope: storage.scope, prim: storage.prim }
}
