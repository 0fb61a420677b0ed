//! Controls above the chart: axes, zoom, table.

use leptos::prelude::*;

use super::chart::Chart;
use super::view_model::keys::{at, zoom};
use super::view_model::{Axis, Curves, View, YScale};
use super::words::{ENGLISH, TimelineWords};

/// One of the texts.
type Word = fn(&TimelineWords) -> &'static str;

/// The bar of controls.
#[component]
pub(super) fn Toolbar(chart: Chart) -> impl IntoView {
    let words = chart.settings.words;
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
                title=move || label(words.get())
                aria-label=move || is_sign.then(|| label(words.get()))
                on:click=move |_| look(change)
            >
                {move || text(words.get())}
            </button>
        }
    };
    view! {
        <div class="tl-bar" role="group" aria-label=move || words.get().chart_role>
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
                aria-pressed=move || chart.as_table.get().to_string()
                on:click=move |_| chart.as_table.update(|shown| *shown = !*shown)
            >
                {move || words.get().as_table}
            </button>
        </div>
    }
}

#[component]
fn AxisSwitch(chart: Chart) -> impl IntoView {
    let words = chart.settings.words;
    let option = move |axis: Axis, text: Word, hint: Word| {
        view! {
            <button
                type="button"
                class="tl-button tl-text"
                title=move || hint(words.get())
                aria-pressed=move || (chart.view.get().axis == axis).to_string()
                on:click=move |_| chart.look(View { axis, ..chart.view.get_untracked() })
            >
                {move || text(words.get())}
            </button>
        }
    };
    view! {
        <div class="tl-group" role="group" aria-label=move || words.get().x_axis>
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
    let words = chart.settings.words;
    let options = SCALES.map(|(scale, value)| {
        view! {
            <option value=value selected=move || chart.view.get().y_scale == scale>
                {move || scale_word(words.get(), scale)}
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
            <span>{move || words.get().y_axis}</span>
            <select on:change=move |event| choose(event_target_value(&event))>
                {options.into_iter().collect_view()}
            </select>
        </label>
    }
}
