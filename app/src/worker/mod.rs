//! The simulator in a worker: the latest question wins, a trap costs one worker.
//!
//! ```text
//! page                                      worker
//! Client::ask ── [id, scenario, step] ────► answer ─► validate, simulate
//! Client::take ◄── [id, ms, reply, columns] ── typed arrays, transferred
//! ```
//!
//! Questions are posted at once. The worker answers the newest that has come when it is free and
//! leaves out those before; the page need not be idle for the next one to begin.

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
    Answer { report: Box<Report>, head: Head },
    Faults(Faults),
}
