//! The scenario being planned, with undo and the preset it started from.

use leptos::prelude::*;
use simulator::wire::scenario::Scenario;

use super::history::History;
use crate::performance;

/// The scenario: the single source of the page.
#[derive(Clone, Copy)]
pub(crate) struct Choice {
    /// What is asked, legal or not.
    pub scenario: RwSignal<Scenario>,
    /// What the reset dots go back to.
    pub baseline: RwSignal<Scenario>,
    history: RwSignal<History<Scenario>>,
}

impl Choice {
    pub(crate) fn new(scenario: Scenario, baseline: Scenario) -> Self {
        Self {
            scenario: RwSignal::new(scenario),
            baseline: RwSignal::new(baseline),
            history: RwSignal::new(History::default()),
        }
    }

    /// Changes the scenario; changes of the same gesture are undone together.
    ///
    /// Each of them changes what was there before the gesture: what a number brings with it while it is
    /// half typed (the 1 of 16 GPUs) is gone with the next digit.
    pub(crate) fn edit(self, gesture: &'static str, change: impl FnOnce(&mut Scenario)) {
        let before = self.scenario.get_untracked();
        let base = self.history.with_untracked(|history| history.base(gesture).cloned());
        let mut after = base.unwrap_or_else(|| before.clone());
        change(&mut after);
        if after == before {
            return;
        }
        performance::input();
        self.history.update(|history| history.record(gesture, &before));
        self.scenario.set(after);
    }

    /// Ends the gesture: the slider was let go, the field was left.
    pub(crate) fn end_gesture(self) {
        self.history.update_untracked(History::end_gesture);
    }

    /// A change that is a step of its own.
    pub(crate) fn set(self, change: impl FnOnce(&mut Scenario)) {
        self.end_gesture();
        self.edit("", change);
        self.end_gesture();
    }

    /// Replaces everything by a preset or a file, which becomes what the reset dots go back to.
    pub(crate) fn load(self, scenario: Scenario) {
        self.set(|now| *now = scenario.clone());
        self.baseline.set(scenario);
    }

    pub(crate) fn undo(self) {
        self.travel(History::undo);
    }

    pub(crate) fn redo(self) {
        self.travel(History::redo);
    }

    fn travel(self, step: impl FnOnce(&mut History<Scenario>, &Scenario) -> Option<Scenario>) {
        let now = self.scenario.get_untracked();
        let value = self.history.try_update(|history| step(history, &now)).flatten();
        if let Some(value) = value {
            performance::input();
            self.scenario.set(value);
        }
    }

    pub(crate) fn can_undo(self) -> bool {
        self.history.with(History::can_undo)
    }

    pub(crate) fn can_redo(self) -> bool {
        self.history.with(History::can_redo)
    }
}
