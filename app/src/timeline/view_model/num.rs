//! The few lossy conversions that geometry needs, in one place.
//!
//! Bytes and nanoseconds stay far below 2⁵³ (nine petabytes, a hundred days), so that `f64` holds
//! them exactly; pixels and positions are clamped before they become indices.

/// Bytes or nanoseconds as a coordinate.
#[expect(clippy::cast_precision_loss, reason = "below 2^53, see the header")]
pub fn from_u64(value: u64) -> f64 {
    value as f64
}

/// A count or an index as a coordinate.
#[expect(clippy::cast_precision_loss, reason = "below 2^53, see the header")]
pub fn from_usize(value: usize) -> f64 {
    value as f64
}

/// The index at or below a coordinate; 0 for negatives and NaN.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is what is wanted"
)]
pub fn to_index(value: f64) -> usize {
    value.floor() as usize
}

/// Whole bytes or nanoseconds at or below a coordinate; 0 for negatives and NaN.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is what is wanted"
)]
pub fn to_u64(value: f64) -> u64 {
    value.floor() as u64
}

/// A small integer, such as an exponent.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which is what is wanted")]
pub fn to_i32(value: f64) -> i32 {
    value as i32
}

/// An index as one of the timeline's ids.
pub fn to_u32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
