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

pub mod units;
pub mod wire;

pub mod allocator;
pub mod catalog;
pub mod clock;
pub mod scenario;

pub mod importers;

pub mod simulate;

pub mod accuracy;

pub use simulate::{Simulation, simulate};
