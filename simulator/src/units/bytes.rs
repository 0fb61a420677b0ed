//! Bytes of memory: an unsigned 64-bit count, exact on every target.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Mul, Sub, SubAssign};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::MAX_EXACT_JSON;

/// Bytes in a KiB.
pub const KIB: u64 = 1 << 10;
/// Bytes in a MiB.
pub const MIB: u64 = 1 << 20;
/// Bytes in a GiB.
pub const GIB: u64 = 1 << 30;

/// A number of bytes.
///
/// Arithmetic panics on overflow: a capacity that wraps silently is worse than a stopped run.
/// In JSON it is an integer, or a decimal string above 2⁵³.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
pub struct Bytes(u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// From a count of bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// From a count of MiB (2²⁰ bytes).
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib * MIB)
    }

    /// From a count of GiB (2³⁰ bytes).
    pub const fn from_gib(gib: u64) -> Self {
        Self(gib * GIB)
    }

    /// The count of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// In GiB (2³⁰ bytes), for display and ratios; exact below 2⁵³ bytes.
    #[expect(clippy::cast_precision_loss, reason = "memory sizes stay far below 2^53 bytes")]
    pub fn gib(self) -> f64 {
        self.0 as f64 / GIB as f64
    }

    /// As a float, for ratios; exact below 2⁵³ bytes.
    #[expect(clippy::cast_precision_loss, reason = "memory sizes stay far below 2^53 bytes")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// `self − other`, or zero when `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self − other`, which may be negative.
    pub const fn signed_sub(self, other: Self) -> i64 {
        self.0.cast_signed() - other.0.cast_signed()
    }

    /// The next multiple of `step` (a power of two or not), at least `self`.
    #[must_use]
    pub const fn round_up(self, step: u64) -> Self {
        Self(self.0.div_ceil(step) * step)
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, count: u64) -> Self {
        Self(self.0 * count)
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 <= MAX_EXACT_JSON {
            serializer.serialize_u64(self.0)
        } else {
            serializer.collect_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Bytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of bytes")
            }
            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Bytes, E> {
                Ok(Bytes(bytes))
            }
            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Bytes, E> {
                u64::try_from(bytes).map(Bytes).map_err(|_negative| E::custom("bytes below zero"))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
                text.parse().map(Bytes).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Bytes {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
        let types = SchemaType::from_iter([Type::Integer, Type::String]);
        let text = "Bytes: an integer, or a decimal string above 2^53";
        ObjectBuilder::new().schema_type(types).description(Some(text)).into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Bytes {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_counts_are_json_strings() {
        let small = serde_json::to_string(&Bytes::new(MAX_EXACT_JSON)).unwrap();
        let large = serde_json::to_string(&Bytes::new(MAX_EXACT_JSON + 1)).unwrap();
        assert_eq!(small, "9007199254740992");
        assert_eq!(large, "\"9007199254740993\"");
        assert_eq!(serde_json::from_str::<Bytes>(&large).unwrap().get(), MAX_EXACT_JSON + 1);
    }

    #[test]
    fn rounding_up_keeps_multiples() {
        assert_eq!(Bytes::new(512).round_up(512), Bytes::new(512));
        assert_eq!(Bytes::new(513).round_up(512), Bytes::new(1024));
    }
}
