//! The memory timeline: one step's memory, stacked by category, over time or events.
//!
//! ```text
//! view_model   pure: curves, axes, columns, hit test, marks    ─┬─►  canvas   (the page)
//! words        what it says                                     └─►  svg      (files, reports)
//! chart        state of a mounted chart and when it draws
//! interaction  pointer, wheel, keys  ─►  View
//! toolbar, tooltip, readout, alternative: HTML around the canvas
//! ```

pub mod view_model;
pub mod words;

pub mod palette;
pub mod svg;

pub mod context;
pub mod export;

mod alternative;
mod canvas;
mod chart;
mod interaction;
mod legend;
mod readout;
mod swatch;
mod theme;
mod toolbar;
mod tooltip;

use std::sync::Arc;

use leptos::prelude::*;

use alternative::Alternative;
use chart::{Chart, Same};
use interaction::Interaction;
use legend::Legend;
use readout::{Announcer, Selection};
use toolbar::Toolbar;
use tooltip::Tooltip;
use view_model::tip::phase_of;
use words::fill;

use crate::erased::{flag, text, when};
use crate::format::size;

pub use context::TimelineSettings;
pub use view_model::{Axis, Curves, TimelineData, View, YScale, live_at};

/// The memory timeline.
#[component]
pub fn TimelineChart(
    /// The step to show.
    #[prop(into)]
    data: Signal<Option<Arc<TimelineData>>>,
    /// Window, axes, cursor and pins.
    view: RwSignal<View>,
    /// The lit tensor, shared with the tables.
    hovered_tensor: RwSignal<Option<u32>>,
    /// Called when the tensor search is wanted.
    #[prop(optional)]
    on_search: Option<Callback<()>>,
) -> impl IntoView {
    let chart = Chart::new(data, view, hovered_tensor, on_search);
    view! {
        <section class="timeline">
            <Toolbar chart />
            <Plot chart />
            {when(move || chart.as_table.get(), move || view! { <Alternative chart /> }.into_any())}
            <Announcer chart />
            <Legend chart />
        </section>
    }
}

/// The canvases with everything that can be done on them.
#[component]
fn Plot(chart: Chart) -> impl IntoView {
    let hands = Interaction::new(chart);
    view! {
        <div
            node_ref=chart.root
            class="tl-plot"
            class:tl-away=flag(move || chart.as_table.get())
            tabindex="0"
            role="application"
            aria-roledescription=chart.word(|words| words.chart_role)
            aria-label=text(move || summary(chart))
            aria-describedby="tl-keys"
            on:keydown=move |event| hands.key_down(&event)
        >
            <canvas node_ref=chart.below aria-hidden="true"></canvas>
            <canvas
                node_ref=chart.above
                aria-hidden="true"
                on:pointerdown=move |event| hands.pointer_down(&event)
                on:pointermove=move |event| hands.pointer_move(&event)
                on:pointerup=move |event| hands.pointer_up(&event)
                on:pointercancel=move |event| hands.pointer_up(&event)
                on:pointerleave=move |event| hands.pointer_leave(&event)
                on:wheel=move |event| hands.wheel(&event)
                on:dblclick=move |_| hands.double_click()
            ></canvas>
            <Selection chart />
            <Tooltip chart />
            <p id="tl-keys" class="tl-unseen">
                {chart.word(|words| words.keys_hint)}
            </p>
        </div>
    }
}

/// The chart in one sentence.
fn summary(chart: Chart) -> String {
    let voice = chart.settings.voice();
    let Some(Same(curves)) = chart.curves.get() else { return voice.words.empty.to_owned() };
    let peak = curves.data.peak_event;
    let state = (peak as usize + 1).min(curves.n_states() - 1);
    let whole = curves.extremes(0..=curves.n_states() - 1);
    let phase = phase_of(&curves, peak).map(|phase| voice.words.phase(phase.kind));
    let bytes = |bytes: u64| size(bytes, voice.unit);
    fill(
        voice.words.chart,
        &[
            &bytes(curves.live(state)),
            phase.unwrap_or_default(),
            &bytes(curves.floor_bytes() + whole.high_reserved),
            &bytes(curves.data.capacity_bytes),
        ],
    )
}
