//! Where the step's time goes, and what each phase does to memory.

use leptos::prelude::*;
use simulator::wire::report::{PhaseReport, StepKind, TimeReport};

use crate::erased::{derived, maybe_text, memo, part, text};
use crate::format;
use crate::state::{Answers, Settings};
use crate::words::Tables;

type Line = (fn(&Tables) -> &'static str, fn(&TimeReport) -> f64);

const LINES: [Line; 4] = [
    (|words| words.forward, |time| time.forward_s),
    (|words| words.backward, |time| time.backward_s),
    (|words| words.optimizer, |time| time.optimizer_s),
    (|words| words.idle, |time| time.device_idle_s),
];

/// The tab.
#[component]
pub(super) fn TimeTab() -> impl IntoView {
    view! {
        <div class="two">
            <Times />
            <Phases />
        </div>
    }
}

#[component]
fn Times() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let words = move || &settings.words().tables;
    let shown = memo(move || answers.with(|answer| answer.step).unwrap_or(StepKind::Steady));
    let time = memo(move || answers.with(|answer| answer.shown().time));
    let row = move |(name, get): Line| {
        let value = move || time.get().map(|time| get(&time));
        let share = move || {
            let whole = time.get().map(|time| time.step_s).filter(|step| 0.0 < *step)?;
            value().map(|value| value / whole)
        };
        let width = text(move || format!("{:.1}%", share().unwrap_or(0.0) * 100.0));
        view! {
            <tr>
                <th scope="row">{derived(move || name(words()))}</th>
                <td class="num size">
                    <span class="bar" style:width=width></span>
                    <span>{maybe_text(move || value().map(format::seconds))}</span>
                </td>
                <td class="num">{maybe_text(move || share().map(format::percent))}</td>
            </tr>
        }
        .into_any()
    };
    let rows: Vec<AnyView> = LINES.into_iter().map(row).collect();
    let total = move |name: fn(&Tables) -> &'static str,
                      write: fn(&TimeReport) -> Option<String>| {
        view! {
            <tr>
                <th scope="row">{derived(move || name(words()))}</th>
                <td class="num">{maybe_text(move || time.get().and_then(|time| write(&time)))}</td>
                <td></td>
            </tr>
        }
        .into_any()
    };
    view! {
        <div class="block">
            <table class="plain">
                <thead><tr>
                    <th scope="col">{derived(move || (settings.words().step)(shown.get()))}</th>
                    <th scope="col" class="num">{settings.word(|w| w.tables.time)}</th>
                    <th scope="col" class="num">{settings.word(|w| w.tables.share)}</th>
                </tr></thead>
                <tbody>{rows}</tbody>
                <tfoot>
                    {total(|w| w.step_time, |time| Some(format::seconds(time.step_s)))}
                    {total(|w| w.tokens_per_s, |time| Some(format::rate(time.tokens_per_s)))}
                    {total(|w| w.mfu, |time| time.mfu.map(format::percent))}
                </tfoot>
            </table>
        </div>
    }
}

#[component]
fn Phases() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let rows = part(move || {
        let unit = settings.unit();
        let words = settings.words();
        let rows = answers.with(|answer| {
            let phases = &answer.shown().phases;
            let repeats = phases.iter().any(|phase| 0 < phase.micro_batch);
            let row = |phase: &PhaseReport| {
                let mut name = (words.phase)(phase.kind).to_owned();
                if repeats {
                    name = format!("{name} · {}", (words.tables.micro_batch)(phase.micro_batch));
                }
                view! {
                    <tr>
                        <th scope="row">{name}</th>
                        <td class="num">{format::size(phase.start_bytes.get(), unit)}</td>
                        <td class="num">{format::size(phase.peak_bytes.get(), unit)}</td>
                        <td class="num">{format::size(phase.end_bytes.get(), unit)}</td>
                    </tr>
                }
                .into_any()
            };
            phases.iter().map(row).collect::<Vec<AnyView>>()
        });
        rows.into_any()
    });
    view! {
        <div class="block">
            <table class="plain">
                <thead><tr>
                    <th scope="col">{settings.word(|w| w.tables.phase)}</th>
                    <th scope="col" class="num">{settings.word(|w| w.tables.start)}</th>
                    <th scope="col" class="num">{settings.word(|w| w.tables.peak)}</th>
                    <th scope="col" class="num">{settings.word(|w| w.tables.end)}</th>
                </tr></thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
}
