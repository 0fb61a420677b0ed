//! The simulator in a worker: the latest question wins, a trap costs one worker.
//!
//! ```text
//! page                                      worker
//! Client::ask ── [id, scenario, step] ────► answer ─► validate, simulate
//! Client::take ◄── [id, ms, reply, columns] ── borsh, and typed arrays that are transferred
//! ```
//!
//! Questions are posted at once. The worker answers the newest that has come when it is free and
//! leaves out those before; the page need not be idle for the next one to begin.

mod client;
mod columns;
mod serve;

pub(crate) use client::{Client, Question, Reply};
pub(crate) use serve::serve;

use borsh::{BorshDeserialize, BorshSerialize};
use simulator::wire::note::Note;
use simulator::wire::report::{
    Engine, Figure, GpuFacts, ModelFacts, RankReport, Report, StepReport, Verdict,
};
use simulator::wire::scenario::Scenario;

use columns::Head;

/// The part of a reply that is no column. Both ends are the same program, so its bytes need no names.
#[derive(BorshSerialize, BorshDeserialize)]
#[expect(clippy::large_enum_variant, reason = "one letter at a time, moved once")]
enum Letter {
    Answer(Said, Head),
    Faults(String),
}

/// A report without the scenario: who asked has it.
#[derive(BorshSerialize, BorshDeserialize)]
struct Said {
    version: u64,
    engine: Engine,
    model: ModelFacts,
    gpu: GpuFacts,
    verdict: Verdict,
    first: StepReport,
    steady: StepReport,
    ranks: Vec<RankReport>,
    figures: Vec<Figure>,
    notes: Vec<Note>,
}

impl Said {
    fn of(report: Report) -> Self {
        let Report { version, scenario: _, engine, model, gpu, verdict, .. } = report;
        let Report { first, steady, ranks, figures, notes, .. } = report;
        Self { version, engine, model, gpu, verdict, first, steady, ranks, figures, notes }
    }

    fn about(self, scenario: Scenario) -> Report {
        let Self { version, engine, model, gpu, verdict, first, steady, ranks, figures, notes } =
            self;
        Report {
            version,
            engine,
            scenario,
            model,
            gpu,
            verdict,
            first,
            steady,
            ranks,
            figures,
            notes,
        }
    }
}
