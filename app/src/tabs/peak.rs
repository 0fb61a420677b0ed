//! What stands at the peak: by category, and by block and primitive.

use leptos::prelude::*;

use super::CategoryName;
use crate::erased::{maybe_text, memo, part as changing, text};
use crate::format;
use crate::state::{Answers, Settings};
use crate::view_model::peak::{Part, head, parts, share};

/// Rows of the breakdown that are shown.
const MOST_ROWS: usize = 60;

/// The tab.
#[component]
pub(super) fn PeakTab() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let caption = maybe_text(move || {
        let words = settings.words();
        answers.with(|answer| {
            let step = answer.shown();
            let phase = (words.in_phase)(step.peak_phase);
            (words.tables.peak_caption)(phase, &format::nanoseconds(step.peak_ns))
        })
    });
    view! {
        <div class="peak-tab">
            <p class="caption">{caption}</p>
            <div class="two">
                <Categories />
                <Breakdown />
            </div>
        </div>
    }
}

#[component]
fn Categories() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let all =
        memo(move || answers.with(|answer| parts(&answer.shown().categories)).unwrap_or_default());
    let row = move |part: Part| {
        view! {
            <tr>
                <td><CategoryName category=part.category /></td>
                <td class="num size" title=format::exact(part.bytes)>
                    <span>{format::size(part.bytes, settings.unit())}</span>
                </td>
                <td class="num">{format::percent(part.share)}</td>
            </tr>
        }
        .into_any()
    };
    let bar = move |part: Part| {
        let name = (settings.words().category)(part.category);
        let title = format!("{name} {}", format::percent(part.share));
        view! {
            <span
                class=format!("c-{}", part.category.word())
                style:width=format!("{:.3}%", part.share * 100.0)
                title=title
            ></span>
        }
        .into_any()
    };
    let bars = changing(move || {
        all.with(|(parts, _)| parts.iter().copied().map(bar).collect::<Vec<_>>()).into_any()
    });
    // The stack from its top, as the timeline shows it.
    let rows = changing(move || {
        all.with(|(parts, _)| parts.iter().rev().copied().map(row).collect::<Vec<_>>()).into_any()
    });
    let total = text(move || format::size(all.with(|(_, total)| *total), settings.unit()));
    view! {
        <div class="block">
            <div class="stack-bar" aria-hidden="true">
                {bars}
            </div>
            <table class="plain">
                <thead><tr>
                    <th scope="col">{settings.word(|w| w.tables.category)}</th>
                    <th scope="col" class="num">{settings.word(|w| w.tables.at_peak)}</th>
                    <th scope="col" class="num">{settings.word(|w| w.tables.share)}</th>
                </tr></thead>
                <tbody>{rows}</tbody>
                <tfoot><tr>
                    <th scope="row">{settings.word(|w| w.tables.total)}</th>
                    <td class="num">{total}</td>
                    <td></td>
                </tr></tfoot>
            </table>
        </div>
    }
}

#[component]
fn Breakdown() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let rows = changing(move || {
        let unit = settings.unit();
        let rows = answers.with(|answer| {
            let step = answer.shown();
            let total = step.peak_requested_bytes.get();
            let (rows, _) = head(&step.breakdown, MOST_ROWS);
            let row = |row: &simulator::wire::report::BreakdownRow| {
                let bytes = row.bytes.get();
                view! {
                    <tr>
                        <td><CategoryName category=row.category /></td>
                        <td>{row.block.clone()}</td>
                        <td>{row.primitive.clone()}</td>
                        <td class="num">{format::count(row.tensors)}</td>
                        <td class="num size" title=format::exact(bytes)>{format::size(bytes, unit)}</td>
                        <td class="num">{format::percent(share(bytes, total))}</td>
                    </tr>
                }
                .into_any()
            };
            rows.iter().map(row).collect::<Vec<_>>()
        });
        rows.into_any()
    });
    view! {
        <div class="block">
            <table class="plain">
                <thead><tr>
                    <th scope="col">{settings.word(|w| w.tables.breakdown)}</th>
                    <th scope="col">{settings.word(|w| w.tables.block)}</th>
                    <th scope="col">{settings.word(|w| w.tables.primitive)}</th>
                    <th scope="col" class="num">{settings.word(|w| w.tables.tensors)}</th>
                    <th scope="col" class="num">{settings.word(|w| w.tables.size)}</th>
                    <th scope="col" class="num">{settings.word(|w| w.tables.share)}</th>
                </tr></thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
}
