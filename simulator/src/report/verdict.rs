//! Whether it fits: the peak with its band against the card and the process's cap.

use crate::tape::{Prim, Recorded};
use crate::units::Bytes;
use crate::wire::report::{LimitedBy, OutOfMemory, Outcome, StepKind, Verdict};
use crate::wire::timeline::PhaseKind;

/// Share of the reserved peak by which replays of real processes were off, at worst, in the captures
/// of docs/accuracy.md: the allocator's part of the band.
const RESERVED_BAND: f64 = 0.02;

/// The same of a compiled program, whose kernels are approximated:
/// the worst of thirteen captures, 17 %, rounded up.
const COMPILED_BAND: f64 = 0.2;

/// What stands on the card beside the allocator's pool, and where the limits are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Memory as the driver shows it.
    pub capacity: Bytes,
    /// In use by others.
    pub already_used: Bytes,
    /// Context and libraries of this process, and what the driver keeps.
    pub outside_pool: Bytes,
    /// Half-width of the band of `outside_pool`.
    pub outside_band: Bytes,
    /// The largest workspace of a convolution: cuDNN may ask for so much more, or less, than the rule says.
    /// The reserved peaks of 70 processes of image networks on an H200 all lay within the band that it
    /// makes (2026-12-01).
    pub workspace: Bytes,
    /// Most bytes the process may reserve, when it is capped.
    pub process_cap: Option<Bytes>,
    /// Whether the program is compiled, and so known less exactly.
    pub compiled: bool,
}

/// Which end of the band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Less memory than nominal: what survives here fits.
    Tight,
    /// More memory than nominal: what fails here does not fit.
    Loose,
}

impl Footprint {
    /// Half-width of the band around a device peak.
    pub fn band(&self, reserved: Bytes) -> Bytes {
        self.outside_band + self.pool_band(reserved)
    }

    /// The pool's part of the band.
    fn pool_band(&self, reserved: Bytes) -> Bytes {
        self.reserved_band(reserved) + self.workspace
    }

    /// Bytes that the pool may take at one end of the band: of the card, and of the process's cap, which
    /// bounds the pool alone.
    pub fn pool_limit(&self, reserved: Bytes, end: End) -> u64 {
        let fixed = self.already_used + self.outside_pool;
        let of_card = self.capacity.signed_sub(fixed);
        let card = shifted(of_card, self.band(reserved), end);
        let cap = self
            .process_cap
            .map(|cap| shifted(cap.signed_sub(Bytes::ZERO), self.pool_band(reserved), end));
        cap.map_or(card, |cap| card.min(cap))
    }

    /// What allocated bytes alone say. The pool reserves at least as many, so too many do not fit; that it
    /// stays within its band above them is taken to be so.
    pub fn outcome(&self, allocated: Bytes) -> Outcome {
        if allocated.get() <= self.pool_limit(allocated, End::Tight) {
            Outcome::Fits
        } else if self.pool_limit(allocated, End::Loose) < allocated.get() {
            Outcome::DoesNotFit
        } else {
            Outcome::TooClose
        }
    }

    /// The allocator's part of the band.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a byte count is a small positive number"
    )]
    fn reserved_band(&self, reserved: Bytes) -> Bytes {
        let share = if self.compiled { COMPILED_BAND } else { RESERVED_BAND };
        Bytes::new((reserved.as_f64() * share) as u64)
    }
}

fn shifted(bytes: i64, band: Bytes, end: End) -> u64 {
    let band = band.signed_sub(Bytes::ZERO);
    let limit = match end {
        End::Tight => bytes.saturating_sub(band),
        End::Loose => bytes.saturating_add(band),
    };
    limit.max(0).cast_unsigned()
}

/// The largest workspace that a convolution asks for.
pub fn largest_workspace(record: &Recorded) -> Bytes {
    let workspaces = record.storages.iter().filter(|storage| storage.prim == Prim::ConvWorkspace);
    Bytes::new(workspaces.map(|storage| storage.bytes).max().unwrap_or(0))
}

/// What a replay under a limit found.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Reserved peak of the replay, up to its failure.
    pub reserved: Bytes,
    /// The request that failed, if one did.
    pub failure: Option<OutOfMemory>,
}

/// The verdict from the peak of a replay without a limit and from trials under the limit.
///
/// The allocator gives unused blocks back before it fails, so a peak above the limit does not decide:
/// the process is replayed under the limit less the band and under the limit plus the band. It fits when
/// it survives the first, does not fit when it fails the second, and is too close to call otherwise.
pub fn verdict(
    footprint: &Footprint,
    unlimited: Bytes,
    trials: Option<[Trial; 2]>,
    step: StepKind,
    phase: PhaseKind,
) -> Verdict {
    let (outcome, reserved, out_of_memory) = match trials {
        None => (Outcome::Fits, unlimited, None),
        Some([tight, _]) if tight.failure.is_none() => (Outcome::Fits, tight.reserved, None),
        Some([_, loose]) if loose.failure.is_some() => {
            (Outcome::DoesNotFit, unlimited, loose.failure)
        }
        Some([tight, _]) => (Outcome::TooClose, unlimited, tight.failure),
    };
    let fixed = footprint.already_used + footprint.outside_pool;
    let card_margin = footprint.capacity.signed_sub(reserved + fixed);
    let cap_margin = footprint.process_cap.map(|cap| cap.signed_sub(reserved));
    let card = (LimitedBy::Card, card_margin, footprint.capacity, footprint.band(unlimited));
    let (limited_by, margin_bytes, limit_bytes, band_bytes) =
        match (footprint.process_cap, cap_margin) {
            (Some(cap), Some(margin)) if margin < card_margin => {
                (LimitedBy::ProcessCap, margin, cap + fixed, footprint.pool_band(unlimited))
            }
            _ => card,
        };
    Verdict {
        outcome,
        device_peak_bytes: reserved + fixed,
        limit_bytes,
        margin_bytes,
        band_bytes,
        step,
        phase,
        limited_by,
        stage: None,
        out_of_memory,
    }
}
