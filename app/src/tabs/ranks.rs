//! Every pipeline stage side by side; the highest decides, any of them can be opened.

use leptos::prelude::*;
use simulator::report::highest;
use simulator::wire::report::{Outcome, RankReport};

use crate::erased::part;
use crate::format;
use crate::state::{Answers, Choice, Settings};
use crate::view_model::ranks::{Frame, HEIGHT, WIDTH};
use crate::words::StageSentence;

/// The tab.
#[component]
pub(super) fn RanksTab() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let choice = expect_context::<Choice>();
    let charts = part(move || {
        let cards = answers.with(|answer| {
            let report = &answer.report;
            let (frame, most) = (Frame::of(report), highest(&report.ranks)?);
            let shown = report.scenario.parallel.stage;
            let cards = report.ranks.iter().map(|rank| {
                let marks = [rank.stage == shown, rank.stage == most.stage];
                card(rank, frame, marks, settings, choice)
            });
            Some((sentence(most, report.ranks.len(), settings), cards.collect::<Vec<AnyView>>()))
        });
        match cards.flatten() {
            Some((sentence, cards)) => view! {
                <p class="caption">{sentence}</p>
                <ul class="ranks">{cards}</ul>
            }
            .into_any(),
            None => view! { <p class="caption">{settings.words().ranks.none}</p> }.into_any(),
        }
    });
    view! { <div class="block">{charts}</div> }
}

/// Which stage is the highest, and what gets it there.
fn sentence(rank: &RankReport, stages: usize, settings: Settings) -> String {
    let words = settings.words();
    (words.ranks.highest_is)(&StageSentence {
        stage: rank.stage,
        stages,
        size: &format::size(rank.peak_allocated_bytes.get(), settings.unit()),
        phase: (words.in_phase)(rank.phase),
        micro_batch: rank.micro_batch,
        step: (words.step)(rank.step),
        what: &rank.what,
        in_flight: rank.in_flight,
    })
}

/// One stage: its course over the step, its peak by category, and whether it fits.
fn card(
    rank: &RankReport,
    frame: Frame,
    [is_shown, is_highest]: [bool; 2],
    settings: Settings,
    choice: Choice,
) -> AnyView {
    let words = settings.words();
    let stage = rank.stage;
    let class = match rank.outcome {
        Outcome::Fits => "rank fits",
        Outcome::TooClose => "rank close",
        Outcome::DoesNotFit => "rank over",
    };
    let peak = rank.peak_allocated_bytes.get();
    let bars = rank.categories.iter().map(|row| {
        let share = crate::view_model::peak::share(row.bytes.get(), peak);
        let class = format!("c-{}", row.category.word());
        let title = format!(
            "{} {}",
            (words.category)(row.category),
            format::size(row.bytes.get(), settings.unit())
        );
        let width = format!("{:.2}%", share * 100.0);
        view! { <span class=class title=title style:width=width></span> }.into_any()
    });
    let bars: Vec<AnyView> = bars.collect();
    let mark = is_highest.then_some(words.ranks.highest);
    let open = move |_| choice.set(|scenario| scenario.parallel.stage = stage);
    view! {
        <li>
            <button
                type="button"
                class=class
                id=format!("rank-{stage}")
                aria-pressed=if is_shown { "true" } else { "false" }
                on:click=open
            >
                <span class="rank-head">
                    <b>{(words.ranks.stage)(stage)}</b>
                    <span class="tag">{mark}</span>
                    <span class="num">{format::size(peak, settings.unit())}</span>
                </span>
                <svg viewBox=format!("0 0 {WIDTH} {HEIGHT}") preserveAspectRatio="none" aria-hidden="true">
                    <path class="rank-course" d=frame.path(rank) />
                    <path class="rank-limit" d=format!("M0 {0:.1}H{WIDTH}", frame.limit) />
                </svg>
                <span class="stack-bar" aria-hidden="true">{bars}</span>
                <span class="rank-foot">
                    <span class="rank-outcome">{(words.verdict.outcome)(rank.outcome)}</span>
                    <span>{(words.ranks.in_flight)(rank.in_flight)}</span>
                </span>
            </button>
        </li>
    }
    .into_any()
}
