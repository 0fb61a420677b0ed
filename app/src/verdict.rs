//! The answer in one sentence, with its gauge and the speed of a step.

use leptos::prelude::*;
use simulator::wire::report::{LimitedBy, Outcome, Report};

use crate::engine::Rules;
use crate::erased::{derived, maybe_text, memo, part, text, when};
use crate::format::{self, Unit};
use crate::state::{Answers, Choice, Settings};
use crate::view_model::verdict::{Gauge as Marks, gauge};
use crate::words::{OomSentence, Sentence, SpeedSentence, Words};

/// The verdict.
#[component]
pub(crate) fn VerdictPanel() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let outcome = memo(move || answers.with(|answer| answer.report.verdict.outcome));
    let class = derived(move || match outcome.get() {
        Some(Outcome::Fits) => "verdict fits",
        Some(Outcome::TooClose) => "verdict close",
        Some(Outcome::DoesNotFit) => "verdict over",
        None => "verdict",
    });
    let word = derived(move || match outcome.get() {
        Some(outcome) => (settings.words().verdict.outcome)(outcome),
        None => settings.words().verdict.waiting,
    });
    let text = maybe_text(move || {
        answers.with(|answer| sentence(&answer.report, settings.words(), settings.unit()))
    });
    view! {
        <section id="answer" class=class tabindex="-1" aria-label=settings.word(|w| w.verdict.heading)>
            <Trouble />
            <div class="verdict-line">
                <p class="verdict-text" role="status" aria-live="polite">
                    <span class="verdict-word"><Icon outcome />{word}</span>
                    <span class="verdict-sentence">{text}</span>
                </p>
                <Gauge />
            </div>
            <Speed />
            <OutOfMemory />
        </section>
    }
}

/// The sentence behind the verdict's word.
fn sentence(report: &Report, words: &Words, unit: Unit) -> String {
    let verdict = &report.verdict;
    (words.verdict.sentence)(&Sentence {
        outcome: verdict.outcome,
        peak: &format::large(verdict.device_peak_bytes.get(), unit),
        limit: &format::large(verdict.limit_bytes.get(), unit),
        band: &format::band(verdict.band_bytes.get(), unit),
        margin: &format::large(verdict.margin_bytes.unsigned_abs(), unit),
        unit: unit.word(),
        phase: (words.in_phase)(verdict.phase),
        step: (words.step)(verdict.step),
        by_cap: verdict.limited_by == LimitedBy::ProcessCap,
        stage: verdict.stage,
    })
}

/// A tick, a question mark or a cross: never colour alone.
#[component]
fn Icon(outcome: Memo<Option<Outcome>>) -> impl IntoView {
    let path = derived(move || match outcome.get() {
        Some(Outcome::Fits) => "M4.500 10.500l3.500 3.500 7.500-8",
        Some(Outcome::TooClose) => {
            "M3.500 8c2-3 4.500-3 6.500 0s4.500 3 6.500 0M3.500 13.500c2-3 4.500-3 6.500 0s4.500 3 6.500 0"
        }
        Some(Outcome::DoesNotFit) => "M5 5l10 10M15 5L5 15",
        None => "M10 10h.01",
    });
    view! {
        <svg class="icon" viewBox="0 0 20 20" aria-hidden="true">
            <path d=path fill="none" stroke="currentColor" stroke-width="2.500" stroke-linecap="round" stroke-linejoin="round" />
        </svg>
    }
}

/// How full the device is, the band around it, and the limit.
#[component]
fn Gauge() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let marks = memo(move || answers.with(|answer| gauge(&answer.report.verdict)));
    let percent = |share: f64| format!("{:.2}%", share * 100.0);
    let at = move |pick: fn(&Marks) -> f64| {
        text(move || marks.get().map_or_else(|| "0%".to_owned(), |marks| percent(pick(&marks))))
    };
    let label = maybe_text(move || {
        let unit = settings.unit();
        answers.with(|answer| {
            let verdict = &answer.report.verdict;
            let [peak, limit, band] =
                [verdict.device_peak_bytes, verdict.limit_bytes, verdict.band_bytes]
                    .map(|bytes| format::size(bytes.get(), unit));
            (settings.words().verdict.gauge)(&peak, &limit, &band)
        })
    });
    view! {
        <div class="gauge" role="img" aria-label=label title=label>
            <div class="gauge-fill" style:width=at(|marks| marks.peak)></div>
            <div
                class="gauge-band"
                style:left=at(|marks| marks.band_start)
                style:width=at(|marks| marks.band_end - marks.band_start)
            ></div>
            <div class="gauge-limit" style:left=at(|marks| marks.limit)></div>
        </div>
    }
}

/// Step time, tokens, utilisation, and where those rates come from.
#[component]
fn Speed() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let text = maybe_text(move || {
        answers.with(|answer| {
            let time = answer.report.steady.time;
            let mfu = time.mfu.map(format::percent);
            (settings.words().verdict.speed)(&SpeedSentence {
                step: &format::seconds(time.step_s),
                tokens: &format::rate(time.tokens_per_s),
                mfu: mfu.as_deref(),
            })
        })
    });
    let mode = memo(move || answers.with(|answer| answer.report.steady.time.mode));
    let is_host_bound =
        move || answers.with(|answer| answer.report.steady.time.host_bound).unwrap_or(false);
    let words = move || &settings.words().verdict;
    let unverified = move || {
        let note = settings.words().note;
        let texts = answers.with(|answer| {
            let notes = answer.report.notes.iter().filter(|note| note.topic.is_unverified());
            notes.map(note).collect::<Vec<String>>().join(" ")
        });
        texts.filter(|text| !text.is_empty())
    };
    let mode_tag = part(move || {
        let Some(mode) = mode.get() else { return ().into_any() };
        let (name, help) = ((words().mode)(mode), (words().mode_help)(mode));
        view! { <span class="tag" title=help>{name}</span> }.into_any()
    });
    let warning = part(move || {
        let Some(text) = unverified() else { return ().into_any() };
        let shown = format!("{} {text}", words().unverified);
        view! { <span class="tag warn" title=text>{shown}</span> }.into_any()
    });
    let host_tag = move || {
        view! { <span class="tag">{settings.word(|w| w.verdict.host_bound)}</span> }.into_any()
    };
    view! {
        <p class="speed">
            <span>{text}</span>
            {when(is_host_bound, host_tag)}
            {mode_tag}
            {warning}
        </p>
    }
}

/// The request that could not be served, when there is one.
#[component]
fn OutOfMemory() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let text = move || {
        let words = settings.words();
        answers.with(|answer| {
            answer.report.verdict.out_of_memory.as_ref().map(|oom| {
                (words.verdict.out_of_memory)(&OomSentence {
                    size: &format::size(oom.requested_bytes.get(), settings.unit()),
                    what: &oom.what,
                    phase: (words.in_phase)(oom.phase),
                    step: (words.step)(oom.step),
                })
            })
        })
    };
    part(move || match text().flatten() {
        Some(text) => view! { <p class="oom">{text}</p> }.into_any(),
        None => ().into_any(),
    })
}

/// Why the answer is not for what the form says: faults, or a simulator that stopped.
#[component]
fn Trouble() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let choice = expect_context::<Choice>();
    let rules = Rules::here();
    let has_failed = memo(move || {
        answers.failure.with(|failure| {
            let failure = failure.as_ref();
            failure.is_some_and(|failure| choice.scenario.with(|now| *now == failure.asked))
        })
    });
    let failure = maybe_text(move || answers.failure.with(|f| f.as_ref().map(|f| f.text.clone())));
    let faults = move || {
        let text = text(move || (settings.words().verdict.faults)(rules.count()));
        view! { <p class="trouble" role="alert">{text}</p> }.into_any()
    };
    let stopped = move || {
        let text = settings.word(|w| w.shell.worker_failed);
        view! { <p class="trouble" role="alert" title=failure>{text}</p> }.into_any()
    };
    view! {
        {when(move || rules.is_broken(), faults)}
        {when(move || has_failed.get(), stopped)}
    }
}
