//! Memory and time of a training step, interpreted primitive by primitive.
//!
//! Pure: no IO, no clock, no threads, no globals; the same bits natively and as WASM.
//!
//! ```text
//! scenario ─► program ─► timeline ─► report
//!  (what)     (requests,  (when, and   (does it fit,
//!              in order)   reserved)    and why)
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc)]
#![warn(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]

// In reading order; rustfmt sorts within a group only.
pub mod order;
pub mod units;
pub mod wire;

pub mod catalog;

pub mod scenario;

pub mod allocator;
pub mod clock;
pub mod tensor;

pub mod tape;

pub mod primitives;

pub mod parallel;

pub mod engine;

pub mod blocks;

pub mod program;

pub mod schedule;

pub mod megatron;

pub mod process;

pub mod timeline;

pub mod tide;

pub mod report;

pub mod simulate;

pub mod accuracy;
pub mod export;
pub mod importers;

pub use simulate::{Rates, Simulation, simulate, simulate_with};
