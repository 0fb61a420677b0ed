//! The simulator in a worker: the latest question wins, a trap costs one worker.
//!
//! ```text
//! page                                worker
//! Client::ask ── [id, scenario] ────► answer ─► validate, simulate
//! Client::take ◄── [id, reply, …] ── typed arrays, transferred
//! ```
//!
//! At most one question is on its way. A newer one waits in its place, replacing any that waits.

mod client;
mod columns;
mod serve;

pub(crate) use client::{Client, Question, Reply};
pub(crate) use serve::serve;

use serde::{Deserialize, Serialize};
use simulator::wire::{Faults, Report};

use columns::Head;

/// The part of a reply that is JSON.
#[derive(Serialize, Deserialize)]
enum Letter {
    Answer { report: Box<Report>, first: Head, steady: Head },
    Faults(Faults),
}
