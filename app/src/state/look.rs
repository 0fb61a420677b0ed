//! What the user looks at: which step, which tab, which stretch of the timeline.

use leptos::prelude::*;
use simulator::wire::report::StepKind;

use crate::timeline::View;

/// The tabs below the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tab {
    #[default]
    Cursor,
    Peak,
    Ranks,
    Time,
    Allocator,
    Why,
}

impl Tab {
    pub(crate) const ALL: [Self; 6] =
        [Self::Cursor, Self::Peak, Self::Ranks, Self::Time, Self::Allocator, Self::Why];

    /// The tab of a word.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tab| tab.word() == word)
    }

    /// For ids and the address.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Cursor => "cursor",
            Self::Peak => "peak",
            Self::Ranks => "ranks",
            Self::Time => "time",
            Self::Allocator => "allocator",
            Self::Why => "why",
        }
    }
}

/// What the user looks at.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub step: RwSignal<StepKind>,
    pub tab: RwSignal<Tab>,
    pub view: RwSignal<View>,
    pub hovered: RwSignal<Option<u32>>,
}

impl Look {
    pub(crate) fn new(step: StepKind, tab: Tab, view: View) -> Self {
        Self {
            step: RwSignal::new(step),
            tab: RwSignal::new(tab),
            view: RwSignal::new(view),
            hovered: RwSignal::new(None),
        }
    }

    /// Lets go of what was zoomed to, held and pinned: it belongs to another model's step.
    pub(crate) fn start_anew(self) {
        self.hovered.set(None);
        self.view.update(|view| {
            *view = View { axis: view.axis, y_scale: view.y_scale, ..View::default() };
        });
    }
}
