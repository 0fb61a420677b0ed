//! The chart as a table, for those who do not see it and for copying.

use leptos::prelude::*;

use super::chart::{Chart, Same};
use super::view_model::keys::at;
use super::view_model::table::{CATEGORIES, PhaseRow, phase_rows};
use super::view_model::tip::phase_name;
use crate::format::{nanoseconds, size};

/// Phases by categories, each phase at its peak; a row's button moves the cursor there.
#[component]
pub(super) fn Alternative(chart: Chart) -> impl IntoView {
    let words = chart.settings.words;
    let heads = move || {
        CATEGORIES.map(|category| view! { <th scope="col">{words.get().category(category)}</th> })
    };
    let rows = move || {
        let Some(Same(curves)) = chart.curves.get() else { return Vec::new() };
        let rows = phase_rows(&curves).into_iter();
        rows.map(|row| {
            let name = phase_name(&curves, &row.phase, words.get());
            view! { <Row chart row name /> }
        })
        .collect()
    };
    view! {
        <div class="tl-table" tabindex="0" role="region" aria-label=move || words.get().table_caption>
            <table>
                <caption>{move || words.get().table_caption}</caption>
                <thead>
                    <tr>
                        <th scope="col">{move || words.get().phase}</th>
                        {heads}
                        <th scope="col">{move || words.get().total}</th>
                        <th scope="col">{move || words.get().reserved}</th>
                        <th scope="col">{move || words.get().length}</th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
}

#[component]
fn Row(chart: Chart, row: PhaseRow, name: String) -> impl IntoView {
    let unit = chart.settings.unit.get_untracked();
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
