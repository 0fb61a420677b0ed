//! What the simulator answered; written only by the worker's replies.

use core::time::Duration;
use std::sync::Arc;

use leptos::leptos_dom::helpers::{TimeoutHandle, set_timeout_with_handle};
use leptos::prelude::*;
use simulator::wire::report::{Report, StepKind, StepReport};
use simulator::wire::scenario::Scenario;

use super::Choice;
use crate::erased::{effect, memo};
use crate::timeline::TimelineData;

/// Waiting shorter than this is not seen.
const NOTICED: Duration = Duration::from_millis(150);

/// One answer, with the question it belongs to.
pub(crate) struct Answer {
    /// Grows with every answer; equality is by it alone.
    pub id: u64,
    /// What was asked, as it was asked.
    pub asked: Scenario,
    pub report: Report,
    /// The step that was looked at when it was asked: only that one is drawn.
    pub step: StepKind,
    pub timeline: Arc<TimelineData>,
}

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Answer {
    /// The numbers of the step that is drawn.
    pub(crate) const fn shown(&self) -> &StepReport {
        self.report.step(self.step)
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
    /// The same, for long enough that a person notices.
    pub late: RwSignal<bool>,
}

impl Answers {
    pub(crate) fn new(choice: Choice) -> Self {
        let latest = RwSignal::<Option<Arc<Answer>>>::new(None);
        let stale = memo(move || {
            latest.with(|latest| {
                latest
                    .as_ref()
                    .is_none_or(|answer| choice.scenario.with(|now| *now != answer.asked))
            })
        });
        let late = RwSignal::new(false);
        say_when_late(stale, late);
        Self { latest, failure: RwSignal::new(None), stale, late }
    }

    /// Reads the latest answer, if there is one.
    pub(crate) fn with<T>(self, read: impl FnOnce(&Answer) -> T) -> Option<T> {
        self.latest.with(|latest| latest.as_deref().map(read))
    }

    /// The timeline of the step that is drawn.
    pub(crate) fn timeline(self) -> Option<Arc<TimelineData>> {
        self.with(|answer| Arc::clone(&answer.timeline))
    }
}

/// While a slider is dragged, every answer is stale for a moment: to dim the page each time would cost
/// two frames' layout and be seen by nobody.
fn say_when_late(stale: Memo<bool>, late: RwSignal<bool>) {
    let due = StoredValue::new(None::<TimeoutHandle>);
    effect(move || {
        if let Some(handle) = due.try_update_value(Option::take).flatten() {
            handle.clear();
        }
        if stale.get() {
            let say = move || {
                late.try_set(true);
            };
            due.set_value(set_timeout_with_handle(say, NOTICED).ok());
        } else if late.get_untracked() {
            late.set(false);
        }
    });
}
