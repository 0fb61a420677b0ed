//! Colours, names, and bytes at the cursor.

use leptos::prelude::*;
use simulator::wire::timeline::Category;

use super::chart::{Chart, Same};
use super::readout::described;
use super::swatch::swatch_class;
use super::view_model::Band;
use super::view_model::scene::Ink;
use super::view_model::tip::occurring;
use super::words::TimelineWords;
use crate::erased::{self, flag, memo, text};
use crate::format::size;

/// What an entry of the legend counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    AlreadyUsed,
    OutsidePool,
    Band(Band),
    /// All activations; their bands follow.
    Activations,
    Slack,
    Uncertainty,
}

impl Part {
    fn swatch(self) -> String {
        match self {
            Self::AlreadyUsed => "tl-swatch tl-already_used".to_owned(),
            Self::OutsidePool => swatch_class(Ink::OutsidePool),
            Self::Band(band) => swatch_class(Ink::Band(band)),
            Self::Activations => "tl-swatch tl-activations".to_owned(),
            Self::Slack => swatch_class(Ink::Slack),
            Self::Uncertainty => "tl-swatch tl-uncertainty".to_owned(),
        }
    }

    fn name(self, words: &TimelineWords) -> &'static str {
        match self {
            Self::AlreadyUsed => words.already_used,
            Self::OutsidePool => words.category(Category::OutsidePool),
            Self::Band(band) => words.block(band).unwrap_or_else(|| words.band(band)),
            Self::Activations => words.category(Category::Activations),
            Self::Slack => words.category(Category::Slack),
            Self::Uncertainty => words.uncertainty,
        }
    }

    fn band(self) -> Option<Band> {
        if let Self::Band(band) = self { Some(band) } else { None }
    }
}

/// The legend. Its entries change with the step, their numbers with the cursor.
#[component]
pub(super) fn Legend(chart: Chart) -> impl IntoView {
    let parts = memo(move || parts(chart));
    let entry = move |part: Part| {
        let amount = memo(move || amount(chart, part).unwrap_or_default());
        let (words, unit) = (chart.settings.words, chart.settings.unit);
        let name = text(move || part.name(words.get()).to_owned());
        let bytes = text(move || size(amount.get(), unit.get()));
        view! {
            <li
                class:tl-zero=flag(move || amount.get() == 0)
                class:tl-sub=part.band().is_some_and(is_activation)
                on:pointerenter=move |_| chart.lit_band.set(part.band())
                on:pointerleave=move |_| chart.lit_band.set(None)
            >
                <span class=part.swatch()></span>
                {name}
                <b>{bytes}</b>
            </li>
        }
    };
    view! {
        <ul class="tl-legend" aria-label=chart.word(|words| words.legend)>
            {erased::part(move || parts.get().into_iter().map(entry).collect_view().into_any())}
        </ul>
    }
}

fn is_activation(band: Band) -> bool {
    band.category() == Category::Activations
}

fn parts(chart: Chart) -> Vec<Part> {
    let Some(Same(curves)) = chart.curves.get() else { return Vec::new() };
    let mut parts = Vec::new();
    if curves.data.already_used_bytes > 0 {
        parts.push(Part::AlreadyUsed);
    }
    parts.push(Part::OutsidePool);
    for band in occurring(&curves) {
        if is_activation(band) && !parts.contains(&Part::Activations) {
            parts.push(Part::Activations);
        }
        parts.push(Part::Band(band));
    }
    parts.push(Part::Slack);
    if curves.data.band_bytes > 0 {
        parts.push(Part::Uncertainty);
    }
    parts
}

fn amount(chart: Chart, part: Part) -> Option<u64> {
    let curves = chart.curves.get()?.0;
    let event = described(&curves, &chart.view.get());
    let state = (event as usize + 1).min(curves.n_states() - 1);
    let band = |band: Band| curves.bands(state)[band.index()];
    Some(match part {
        Part::AlreadyUsed => curves.data.already_used_bytes,
        Part::OutsidePool => curves.data.outside_pool_bytes,
        Part::Band(one) => band(one),
        Part::Activations => {
            Band::ALL.into_iter().filter(|&one| is_activation(one)).map(band).sum()
        }
        Part::Slack => curves.reserved(state) - curves.live(state),
        Part::Uncertainty => curves.data.band_bytes,
    })
}
