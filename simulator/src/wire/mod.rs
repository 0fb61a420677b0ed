//! The shapes that travel or are saved: scenario, report, timeline, hardware profile, captures.
//!
//! Every format carries a version and is described in docs/formats.md. Integers above 2⁵³ are
//! decimal strings in JSON. Nothing here computes.

pub mod allocator_capture;
pub mod api;
pub mod capture;
pub mod fault;
mod fields;
pub mod hardware;
pub mod model;
pub mod note;
pub mod parallel;
pub mod published;
pub mod report;
pub mod scenario;
pub mod timeline;

pub use allocator_capture::AllocatorCapture;
pub use api::{Answer, Problem, ShareRequest, SharedScenario};
pub use fault::{Fault, Faults, Mend, Rule};
pub use hardware::{GpuProfile, Provenance};
pub use model::{ModelCard, ModelKind};
pub use note::{Note, Topic};
pub use report::Report;
pub use scenario::Scenario;
pub use timeline::Timeline;
