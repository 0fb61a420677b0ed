//! The chart as a table, for those who do not see it and for copying.

use leptos::prelude::*;

use super::chart::{Chart, Same};
use super::view_model::keys::at;
use super::view_model::table::{CATEGORIES, PhaseRow, phase_rows};
use super::view_model::tip::phase_name;
use crate::erased::part;
use crate::format::{Unit, nanoseconds, size};

/// Phases by categories, each phase at its peak; a row's button moves the cursor there.
#[component]
pub(super) fn Alternative(chart: Chart) -> impl IntoView {
    let heads = part(move || {
        let words = chart.settings.words.get();
        let head = |category| view! { <th scope="col">{words.category(category)}</th> };
        CATEGORIES.map(head).into_any()
    });
    let rows = part(move || {
        let Some(Same(curves)) = chart.curves.get() else { return ().into_any() };
        let voice = chart.settings.voice();
        let rows = phase_rows(&curves).into_iter();
        rows.map(|row| {
            let name = phase_name(&curves, &row.phase, voice.words);
            view! { <Row chart row name unit=voice.unit /> }
        })
        .collect_view()
        .into_any()
    });
    view! {
        <div
            class="tl-table"
            tabindex="0"
            role="region"
            aria-label=chart.word(|words| words.table_caption)
        >
            <table>
                <caption>{chart.word(|words| words.table_caption)}</caption>
                <thead>
                    <tr>
                        <th scope="col">{chart.word(|words| words.phase)}</th>
                        {heads}
                        <th scope="col">{chart.word(|words| words.total)}</th>
                        <th scope="col">{chart.word(|words| words.reserved)}</th>
                        <th scope="col">{chart.word(|words| words.length)}</th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
}

#[component]
fn Row(chart: Chart, row: PhaseRow, name: String, unit: Unit) -> impl IntoView {
    let cells = row.categories.map(|bytes| view! { <td>{size(bytes, unit)}</td> });
    let event = row.peak_event;
    let go = move |_| {
        if let Some((curves, _)) = chart.now() {
            chart.look(at(&curves, &chart.view.get_untracked(), event));
        }
    };
    view! {
        <tr>
            <th scope="row">
                <button type="button" class="tl-link" on:click=go>
                    {name}
                </button>
            </th>
            {cells.into_iter().collect_view()}
            <td>{size(row.live, unit)}</td>
            <td>{size(row.reserved, unit)}</td>
            <td>{nanoseconds(row.length_ns)}</td>
        </tr>
    }
}
