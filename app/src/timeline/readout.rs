//! In words: the state at the cursor, the pinned tensor, the selection.

use std::time::Duration;

use leptos::leptos_dom::helpers::{TimeoutHandle, set_timeout_with_handle};
use leptos::prelude::*;

use super::chart::{Chart, Same};
use super::view_model::num::to_u32;
use super::view_model::range::totals;
use super::view_model::tip::{readout, short_readout, tensor_line};
use super::view_model::{Curves, View};
use super::words::fill;
use crate::erased::{self, effect, memo, part};
use crate::format::{nanoseconds, signed_size, size};

/// How long the cursor must rest before a screen reader hears of it.
const REST: Duration = Duration::from_millis(400);

/// The event that the read-outs describe: the cursor's, else the peak's.
pub(super) fn described(curves: &Curves, view: &View) -> u32 {
    let last = to_u32(curves.n_events().saturating_sub(1));
    view.cursor_event.unwrap_or(curves.data.peak_event).min(last)
}

/// In the bar: the pinned tensor, else the state at the cursor.
#[component]
pub(super) fn Readout(chart: Chart) -> impl IntoView {
    let text = erased::text(move || {
        let voice = chart.settings.voice();
        chart.curves.get().map_or_else(
            || voice.words.empty.to_owned(),
            |Same(curves)| short_readout(&curves, described(&curves, &chart.view.get()), voice),
        )
    });
    let pinned = memo(move || {
        let Same(curves) = chart.curves.get()?;
        let tensor = chart.view.get().pinned.filter(|&tensor| curves.has_tensor(tensor))?;
        Some(tensor_line(&curves, tensor, chart.settings.voice()))
    });
    let unpin = move |_| chart.look(View { pinned: None, ..chart.view.get_untracked() });
    let chip = move |line: String| {
        view! {
            <span class="tl-chip">
                <span>{chart.word(|words| words.pinned)} ": " {line}</span>
                <button
                    type="button"
                    class="tl-clear"
                    aria-label=chart.word(|words| words.clear)
                    on:click=unpin
                >
                    "×"
                </button>
            </span>
        }
        .into_any()
    };
    let either =
        part(move || pinned.get().map_or_else(|| view! { <span>{text}</span> }.into_any(), chip));
    view! { <p class="tl-readout">{either}</p> }
}

/// Totals over the selected events, lying over the tracks.
#[component]
pub(super) fn Selection(chart: Chart) -> impl IntoView {
    let text = memo(move || {
        let Same(curves) = chart.curves.get()?;
        let totals = totals(&curves, chart.view.get().selection?)?;
        let words = chart.settings.words.get();
        let unit = chart.settings.unit.get();
        let bytes = |bytes: u64, count: u64, text: &str| {
            fill(text, &[&size(bytes, unit), &count.to_string()])
        };
        let parts = [
            fill(words.selection, &[&totals.events.to_string(), &nanoseconds(totals.length_ns)]),
            bytes(totals.allocated_bytes, totals.allocations, words.allocated_in),
            bytes(totals.freed_bytes, totals.frees, words.freed_in),
            fill(words.net, &[&signed_size(totals.net_bytes, unit)]),
            fill(words.highest, &[&size(totals.peak_live_bytes, unit)]),
        ];
        Some(parts.join(" · "))
    });
    let zoom = move |_| {
        let view = chart.view.get_untracked();
        if let Some((first, last)) = view.selection {
            chart.look(view.with_window((f64::from(first), f64::from(last) + 1.0)));
        }
    };
    let clear = move |_| chart.look(View { selection: None, ..chart.view.get_untracked() });
    let bar = move |text: String| {
        view! {
            <p class="tl-selection" role="status">
                <span>{text}</span>
                <button type="button" class="tl-button tl-text" on:click=zoom>
                    {chart.word(|words| words.zoom_to_selection)}
                </button>
                <button type="button" class="tl-button tl-text" on:click=clear>
                    {chart.word(|words| words.clear)}
                </button>
            </p>
        }
    };
    part(move || text.get().map(bar).into_any())
}

/// Tells screen readers where the cursor came to rest.
#[component]
pub(super) fn Announcer(chart: Chart) -> impl IntoView {
    let text = memo(move || {
        let Same(curves) = chart.curves.get()?;
        let event = described(&curves, &chart.view.get());
        Some(readout(&curves, event, chart.settings.voice()))
    });
    let said = RwSignal::new(String::new());
    let waiting = StoredValue::new(None::<TimeoutHandle>);
    let stop = move || {
        waiting.try_update_value(|waiting| {
            if let Some(handle) = waiting.take() {
                handle.clear();
            }
        });
    };
    effect(move || {
        let text = text.get();
        let is_held = chart.view.get().cursor_held;
        let tensor = chart.lit.get().zip(chart.curves.get()).and_then(|(tensor, Same(curves))| {
            let is_there = curves.has_tensor(tensor);
            is_there.then(|| tensor_line(&curves, tensor, chart.settings.voice()))
        });
        stop();
        // A pointer that passes over is not worth a word.
        if let Some(text) = text.filter(|_| is_held) {
            let text = tensor.map_or_else(|| text.clone(), |tensor| format!("{tensor}. {text}"));
            let say = move || {
                said.try_set(text);
            };
            waiting.set_value(set_timeout_with_handle(say, REST).ok());
        }
    });
    on_cleanup(stop);
    view! { <p class="tl-unseen" aria-live="polite">{said}</p> }
}
