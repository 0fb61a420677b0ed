//! Summaries of program that compose: the same peak of live bytes as a full replay, in a few additions.
//!
//! A stretch of requests is summarised by the bytes it leaves behind and the highest bytes above its
//! start. Two stretches one after the other are summarised by their summaries alone, so a layer or a
//! micro-batch that repeats is folded instead of replayed. Bytes are requested bytes, each request
//! rounded as the allocator rounds it. What the allocator reserves does not compose.

mod fold;
mod slots;
#[cfg(test)]
mod stage_tests;
mod stages;
mod swell;
#[cfg(test)]
mod tests;
mod walk;

pub use fold::{Folded, folded};
pub use stages::{StageSummary, stages};
pub use swell::{Crest, Swell};

/// The allocator's granule (`kMinBlockSize` in `c10/cuda/CUDACachingAllocator.cpp`), bytes.
const GRANULE: u64 = 512;

/// The bytes a request takes: at least one granule, and whole ones.
pub const fn rounded(bytes: u64) -> u64 {
    if bytes < GRANULE { GRANULE } else { bytes.next_multiple_of(GRANULE) }
}

/// A summary of a stretch of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tide {
    /// Bytes it leaves behind; negative when it frees more than it allocates.
    pub net: i64,
    /// Highest live bytes above those at its start.
    pub peak: u64,
}

impl Tide {
    /// No request at all.
    pub const NONE: Self = Self { net: 0, peak: 0 };

    /// One allocation.
    pub const fn allocation(bytes: u64) -> Self {
        let bytes = rounded(bytes);
        Self { net: bytes.cast_signed(), peak: bytes }
    }

    /// One free.
    pub const fn free(bytes: u64) -> Self {
        Self { net: -rounded(bytes).cast_signed(), peak: 0 }
    }

    /// Requests in order, each summarised.
    pub fn of(requests: impl IntoIterator<Item = Self>) -> Self {
        requests.into_iter().fold(Self::NONE, Self::then)
    }

    /// This stretch, and then the next.
    #[must_use]
    pub const fn then(self, next: Self) -> Self {
        let later = next.peak.saturating_add_signed(self.net);
        let peak = if later < self.peak { self.peak } else { later };
        Self { net: self.net + next.net, peak }
    }

    /// This stretch, `times` times in a row.
    ///
    /// # Formula
    ///
    /// ```text
    /// net  = n · net₁
    /// peak = peak₁ + (n − 1) · max(net₁, 0)      (0 for n = 0)
    /// ```
    #[must_use]
    pub const fn repeat(self, times: u64) -> Self {
        if times == 0 {
            return Self::NONE;
        }
        let rise = if self.net < 0 { 0 } else { self.net.unsigned_abs() };
        Self { net: self.net * times.cast_signed(), peak: self.peak + (times - 1) * rise }
    }
}
