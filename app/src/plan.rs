//! The main column: verdict, timeline, tabs.

use leptos::prelude::*;
use simulator::wire::report::StepKind;

use crate::engine::Rules;
use crate::erased::{aria, derived, flag, maybe_text, part};
use crate::format;
use crate::help;
use crate::page::{Notice, NoticeKind};
use crate::state::{Answers, Look, Settings};
use crate::tabs::Tabs;
use crate::timeline::TimelineChart;
use crate::verdict::VerdictPanel;

/// The main column.
#[component]
pub(crate) fn Plan() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let look = expect_context::<Look>();
    let rules = Rules::here();
    let data = derived(move || answers.timeline());
    // A plan that breaks a rule is not asked about.
    let late = answers.late;
    let is_asking = flag(move || late.get() && !rules.is_broken());
    let search = Callback::new(move |()| help::search_tensors(look));
    let title = maybe_text(move || {
        answers.with(|answer| format!("{} · {}", answer.report.model.name, answer.report.gpu.name))
    });
    view! {
        <h1 class="print-title">{title}</h1>
        <NoticeBar />
        <VerdictPanel />
        <section class="chart" class:stale=late class:asking=is_asking>
            <div class="chart-head">
                <h2>{title}</h2>
                <div
                    class="switcher"
                    id="step"
                    role="group"
                    aria-label=settings.word(|w| w.shell.first_or_steady)
                >
                    <StepButton step=StepKind::First />
                    <StepButton step=StepKind::Steady />
                </div>
            </div>
            <TimelineChart data view=look.view hovered_tensor=look.hovered on_search=search />
            <div class="progress" aria-hidden="true"></div>
        </section>
        <Tabs />
    }
}

#[component]
fn StepButton(step: StepKind) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let look = expect_context::<Look>();
    view! {
        <button
            type="button"
            aria-pressed=aria(move || look.step.get() == step)
            on:click=move |_| look.step.set(step)
        >
            {derived(move || (settings.words().step)(step))}
        </button>
    }
}

/// What a link says beyond its plan, until it is dismissed or no longer true.
#[component]
fn NoticeBar() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let notice = expect_context::<Notice>().0;
    let words = move || &settings.words().shell;
    let text = move || match notice.get()? {
        NoticeKind::LinkNewer => Some(words().link_newer.to_owned()),
        NoticeKind::LinkBroken => Some(words().link_broken.to_owned()),
        NoticeKind::Predicted { plan, predictions, peak_bytes } => {
            let unit = settings.unit();
            let (rules, now) = answers.with(|answer| {
                let peak = answer.report.verdict.device_peak_bytes.get();
                (answer.asked == *plan).then_some((answer.report.engine.predictions, peak))
            })??;
            let is_changed = rules != predictions && now != peak_bytes;
            let [then, now] = [peak_bytes, now].map(|bytes| format::size(bytes, unit));
            is_changed.then(|| (words().prediction_changed)(&then, &now))
        }
    };
    part(move || {
        let Some(text) = text() else { return ().into_any() };
        view! {
            <p class="notice" role="status">
                <span>{text}</span>
                <button type="button" class="link" on:click=move |_| notice.set(None)>
                    {settings.word(|w| w.shell.dismiss)}
                </button>
            </p>
        }
        .into_any()
    })
}
