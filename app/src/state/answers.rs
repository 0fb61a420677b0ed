//! What the simulator answered; written only by the worker's replies.

use std::sync::Arc;

use leptos::prelude::*;
use simulator::wire::report::{Report, StepKind, StepReport};
use simulator::wire::scenario::Scenario;
use simulator::wire::timeline::Category;

use super::{Choice, Look};
use crate::timeline::TimelineData;

/// One answer, with the question it belongs to.
pub(crate) struct Answer {
    /// Grows with every answer; equality is by it alone.
    pub id: u64,
    /// What was asked, as it was asked.
    pub asked: Scenario,
    pub report: Report,
    pub first: Arc<TimelineData>,
    pub steady: Arc<TimelineData>,
}

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Answer {
    pub(crate) const fn step(&self, step: StepKind) -> &StepReport {
        match step {
            StepKind::First => &self.report.first,
            StepKind::Steady => &self.report.steady,
        }
    }

    pub(crate) const fn timeline(&self, step: StepKind) -> &Arc<TimelineData> {
        match step {
            StepKind::First => &self.first,
            StepKind::Steady => &self.steady,
        }
    }

    /// Bytes of a category at the step's peak.
    pub(crate) fn category_bytes(&self, step: StepKind, category: Category) -> u64 {
        let rows = &self.step(step).categories;
        rows.iter().find(|row| row.category == category).map_or(0, |row| row.bytes.get())
    }
}

/// A question that broke the simulator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub asked: Scenario,
    pub text: String,
}

/// The latest answer and the latest failure.
#[derive(Clone, Copy)]
pub(crate) struct Answers {
    pub latest: RwSignal<Option<Arc<Answer>>>,
    pub failure: RwSignal<Option<Failure>>,
    /// Whether the latest answer is for another question than the one on the page.
    pub stale: Memo<bool>,
}

impl Answers {
    pub(crate) fn new(choice: Choice) -> Self {
        let latest = RwSignal::<Option<Arc<Answer>>>::new(None);
        let stale = Memo::new(move |_| {
            latest.with(|latest| {
                latest
                    .as_ref()
                    .is_none_or(|answer| choice.scenario.with(|now| *now != answer.asked))
            })
        });
        Self { latest, failure: RwSignal::new(None), stale }
    }

    /// Reads the latest answer, if there is one.
    pub(crate) fn with<T>(self, read: impl FnOnce(&Answer) -> T) -> Option<T> {
        self.latest.with(|latest| latest.as_deref().map(read))
    }

    /// The timeline of the step that is looked at.
    pub(crate) fn timeline(self, look: Look) -> Option<Arc<TimelineData>> {
        let step = look.step.get();
        self.with(|answer| Arc::clone(answer.timeline(step)))
    }
}
