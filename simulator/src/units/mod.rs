//! Quantities as types: a number that crosses a module boundary carries its unit in its type.
//!
//! A new quantity gets a file here, a private field, constructors and accessors that name the unit,
//! and only the operators that make physical sense. `Bytes` and `Nanos` never convert into each
//! other, and there is no `From<u64>`.

mod bytes;
mod time;

pub use bytes::{Bytes, GIB, KIB, MIB};
pub use time::Nanos;

/// Largest integer that every JSON reader keeps exactly (2⁵³).
pub const MAX_EXACT_JSON: u64 = 1 << 53;
