//! Controls above the chart: axes, zoom, table.

use leptos::prelude::*;

use super::chart::Chart;
use super::readout::Readout;
use super::view_model::keys::{at, zoom};
use super::view_model::{Axis, Curves, View, YScale};
use super::words::{ENGLISH, TimelineWords};
use crate::erased::{aria, flag, text};

/// One of the texts.
type Word = fn(&TimelineWords) -> &'static str;

/// The bar of controls.
#[component]
pub(super) fn Toolbar(chart: Chart) -> impl IntoView {
    let look = move |change: fn(&Curves, &View) -> View| {
        if let Some((curves, _)) = chart.now() {
            chart.look(change(&curves, &chart.view.get_untracked()));
        }
    };
    let button = move |text: Word, label: Word, change| {
        // A sign needs a name; a word is one.
        let is_sign = text(&ENGLISH).len() < 3 || !text(&ENGLISH).is_ascii();
        view! {
            <button
                type="button"
                class="tl-button"
                title=chart.word(label)
                aria-label=is_sign.then(|| chart.word(label))
                on:click=move |_| look(change)
            >
                {chart.word(text)}
            </button>
        }
    };
    view! {
        <div class="tl-bar" role="group" aria-label=chart.word(|words| words.chart_role)>
            <AxisSwitch chart />
            <ScaleSelect chart />
            <div class="tl-group">
                {button(|_| "\u{2212}", |words| words.zoom_out, |curves, view| zoom(curves, view, 0.5))}
                {button(|_| "+", |words| words.zoom_in, |curves, view| zoom(curves, view, 2.0))}
                {button(|words| words.whole, |words| words.whole_step, |_, view| view.whole())}
                {button(
                    |words| words.to_the_peak,
                    |words| words.to_peak,
                    |curves, view| at(curves, view, curves.data.peak_event),
                )}
            </div>
            <button
                type="button"
                class="tl-button tl-text"
                aria-pressed=aria(move || chart.as_table.get())
                on:click=move |_| chart.as_table.update(|shown| *shown = !*shown)
            >
                {chart.word(|words| words.as_table)}
            </button>
            <Readout chart />
        </div>
    }
}

#[component]
fn AxisSwitch(chart: Chart) -> impl IntoView {
    let option = move |axis: Axis, text: Word, hint: Word| {
        view! {
            <button
                type="button"
                class="tl-button tl-text"
                title=chart.word(hint)
                aria-pressed=aria(move || chart.view.get().axis == axis)
                on:click=move |_| chart.look(View { axis, ..chart.view.get_untracked() })
            >
                {chart.word(text)}
            </button>
        }
    };
    view! {
        <div class="tl-group" role="group" aria-label=chart.word(|words| words.x_axis)>
            {option(Axis::Time, |words| words.time, |words| words.time_hint)}
            {option(Axis::Order, |words| words.order, |words| words.order_hint)}
        </div>
    }
}

/// Scales with their values in the select.
const SCALES: [(YScale, &str); 4] = [
    (YScale::Auto, "auto"),
    (YScale::Capacity, "capacity"),
    (YScale::Live, "live"),
    (YScale::Window, "window"),
];

fn scale_word(words: &TimelineWords, scale: YScale) -> &'static str {
    match scale {
        YScale::Auto => words.y_auto,
        YScale::Capacity => words.y_capacity,
        YScale::Live => words.y_live,
        YScale::Window => words.y_window,
    }
}

#[component]
fn ScaleSelect(chart: Chart) -> impl IntoView {
    let options = SCALES.map(|(scale, value)| {
        view! {
            <option value=value selected=flag(move || chart.view.get().y_scale == scale)>
                {text(move || scale_word(chart.settings.words.get(), scale).to_owned())}
            </option>
        }
    });
    let choose = move |value: String| {
        if let Some((y_scale, _)) = SCALES.into_iter().find(|(_, name)| *name == value) {
            chart.look(View { y_scale, ..chart.view.get_untracked() });
        }
    };
    view! {
        <label class="tl-label">
            <span>{chart.word(|words| words.y_axis)}</span>
            <select on:change=move |event| choose(event_target_value(&event))>
                {options.into_iter().collect_view()}
            </select>
        </label>
    }
}
