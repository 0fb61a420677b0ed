//! Lengths of time in whole nanoseconds.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// A length of time, or the time since the step's start, in nanoseconds.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(u64);

impl Nanos {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// From whole nanoseconds.
    pub const fn new(ns: u64) -> Self {
        Self(ns)
    }

    /// From seconds, rounded to the nearest nanosecond; negative and NaN become zero.
    ///
    /// The one place where a computed cost becomes a time.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float-to-integer cast saturates, and the sum is not negative"
    )]
    pub fn from_seconds(seconds: f64) -> Self {
        Self((seconds * 1e9 + 0.5) as u64)
    }

    /// Whole nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// In seconds; exact below 2⁵³ ns (104 days).
    #[expect(clippy::cast_precision_loss, reason = "steps last far less than 104 days")]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The later of two instants, or the longer of two lengths.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Ord::max(self, other)
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}
