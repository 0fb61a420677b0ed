//! When things happen and what the allocator makes of them.
//!
//! A [`Pool`] lives as long as the process: each run of the tape is replayed into it in host order,
//! so that the second step finds what the first one left. Memory depends on host order alone; the
//! clock only says when.

mod columns;
mod labels;
mod pool;

pub use columns::{Timed, timeline};
pub use pool::{Failure, Pool, Replayed};
