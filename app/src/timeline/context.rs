//! Language and unit, as the page provides them.

use leptos::prelude::*;

use super::view_model::tip::Voice;
use super::words::{ENGLISH, TimelineWords};
use crate::format::Unit;

/// Provided as a context by the page; without it the timeline speaks English and counts in GiB.
#[derive(Clone, Copy)]
pub struct TimelineSettings {
    /// Texts in the chosen language.
    pub words: Signal<&'static TimelineWords>,
    /// GiB or GB.
    pub unit: Signal<Unit>,
}

impl TimelineSettings {
    /// The page's settings.
    pub(super) fn from_context() -> Self {
        use_context().unwrap_or_else(|| Self {
            words: Signal::stored(&ENGLISH),
            unit: Signal::stored(Unit::default()),
        })
    }

    /// Language and unit; tracked.
    pub(super) fn voice(self) -> Voice<'static> {
        Voice { words: self.words.get(), unit: self.unit.get() }
    }

    /// Language and unit, for handlers.
    pub(super) fn voice_now(self) -> Voice<'static> {
        untrack(|| self.voice())
    }
}
