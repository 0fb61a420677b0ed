//! The page: which place the address names, the frame around it, and the wiring of state to worker.

use std::sync::Arc;

use js_sys::Function;
use leptos::prelude::*;
use leptos::task::spawn_local;
use simulator::wire::report::StepKind;
use simulator::wire::{Report, Scenario, Timeline};

use crate::address::{self, Place};
use crate::engine::{self, Rules};
use crate::erased::{aria, flag};
use crate::form::{Import, ScenarioForm, listen_for_drops};
use crate::help::{HelpDialog, listen_for_keys};
use crate::plan::Plan;
use crate::share::ShareDialog;
use crate::state::{Answer, Answers, Choice, Failure, Look, Settings, Tab};
use crate::timeline::{TimelineData, View};
use crate::topbar::TopBar;
use crate::url::{Link, LinkFault};
use crate::words::Shell;
use crate::{dom, performance, worker};

/// What a link says beyond its plan: shown once above the answer.
#[derive(Clone, Copy)]
pub(crate) struct Notice(pub RwSignal<Option<NoticeKind>>);

/// Why there is a notice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    LinkNewer,
    LinkBroken,
    /// The peak that the link's maker saw, under other prediction rules.
    Predicted {
        predictions: u64,
        peak_bytes: u64,
    },
}

/// The whole page.
#[component]
pub(crate) fn App(spawn: Function) -> impl IntoView {
    let settings = Settings::load();
    provide_context(settings);
    Effect::new(move || {
        dom::set_root("lang", settings.language().tag());
        dom::set_root("data-theme", settings.theme().word());
        dom::set_title(&format!("{} · Tidemark", settings.words().shell.title));
    });
    match address::read() {
        Place::Plan(link) => view! { <Page link spawn /> }.into_any(),
        Place::Stored(id) => view! { <StoredPage id spawn /> }.into_any(),
        Place::Unknown => view! { <NotFound /> }.into_any(),
    }
}

/// The plan behind a short link, once it is here.
#[component]
fn StoredPage(id: String, spawn: Function) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let spawn = StoredValue::new_local(spawn);
    let fetched = RwSignal::new(None::<Option<Link>>);
    spawn_local(async move {
        let link = address::fetch_stored(&id).await;
        fetched.try_set(Some(link));
    });
    move || match fetched.get() {
        None => view! { <p class="loading">{settings.words().shell.link_loading}</p> }.into_any(),
        Some(None) => view! { <Missing text=|shell| shell.link_missing /> }.into_any(),
        Some(Some(link)) => {
            let link = Ok(Some(Box::new(link)));
            view! { <Page link spawn=spawn.get_value() /> }.into_any()
        }
    }
}

#[component]
fn NotFound() -> impl IntoView {
    view! { <Missing text=|shell| shell.not_found_text /> }
}

#[component]
fn Missing(text: fn(&Shell) -> &'static str) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let words = move || &settings.words().shell;
    view! {
        <main class="missing">
            <h1>{settings.word(|w| w.shell.not_found)}</h1>
            <p>{move || text(words())}</p>
            <p><a href="/">{settings.word(|w| w.shell.to_plan)}</a></p>
        </main>
    }
}

/// The plan with all its state.
#[component]
fn Page(link: Result<Option<Box<Link>>, LinkFault>, spawn: Function) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let default = engine::presets()[0].scenario.clone();
    let (link, fault) = match link {
        Ok(link) => (link, None),
        Err(fault) => (None, Some(fault)),
    };
    let scenario = link.as_ref().map_or_else(|| default.clone(), |link| link.scenario.clone());
    let choice = Choice::new(scenario.clone(), scenario);
    let view = link.as_ref().and_then(|link| link.view.as_deref()).map(View::decode);
    let (step, tab) =
        link.as_ref().map_or((StepKind::Steady, Tab::default()), |link| (link.step, link.tab));
    let look = Look::new(step, tab, view.unwrap_or_default());
    let answers = Answers::new(choice);
    let answered = link.as_ref().and_then(|link| link.answered);
    let notice = match fault {
        Some(LinkFault::Newer) => Some(NoticeKind::LinkNewer),
        Some(LinkFault::Broken) => Some(NoticeKind::LinkBroken),
        None => answered.map(|answered| NoticeKind::Predicted {
            predictions: answered.predictions,
            peak_bytes: answered.peak_bytes,
        }),
    };
    let import = Import::new();
    provide_context(settings.of_timeline());
    provide_context(choice);
    provide_context(look);
    provide_context(answers);
    provide_context(Rules::new(choice));
    provide_context(import);
    provide_context(Notice(RwSignal::new(notice)));
    ask(choice, answers, spawn);
    address::follow(choice, look, answers);
    listen_for_keys(choice, look);
    listen_for_drops(import, choice);
    let sheet = RwSignal::new(false);
    view! {
        <a class="skip" href="#answer">{settings.word(|w| w.shell.skip)}</a>
        <TopBar />
        <div class="columns">
            <aside class="side" class:open=flag(move || sheet.get()) aria-label=settings.word(|w| w.shell.inputs)>
                <button type="button" class="button sheet-done" on:click=move |_| sheet.set(false)>
                    {settings.word(|w| w.shell.done)}
                </button>
                <ScenarioForm />
            </aside>
            <main class="main" id="main"><Plan /></main>
            <button
                type="button"
                class="button primary sheet-open"
                aria-controls="inputs"
                aria-expanded=aria(move || sheet.get())
                on:click=move |_| sheet.set(true)
            >
                {settings.word(|w| w.shell.inputs)}
            </button>
        </div>
        <ShareDialog />
        <HelpDialog />
    }
}

/// Asks the worker whenever the plan changes and is legal; its replies are the only place where
/// something other than the user writes a signal.
fn ask(choice: Choice, answers: Answers, spawn: Function) {
    let rules = Rules::here();
    let mut next_id = 0;
    let next_id = core::cell::RefCell::new(move || {
        next_id += 1;
        next_id
    });
    let client = worker::Client::start(spawn, move |question, reply| match reply {
        worker::Reply::Answer { report, first, steady } => {
            let id = (next_id.borrow_mut())();
            let answer = answer(id, question.scenario, *report, [first, steady]);
            answers.latest.try_set(Some(Arc::new(answer)));
            performance::answered(question.inputs);
        }
        worker::Reply::Faults(faults) => {
            let text = faults.to_string();
            answers.failure.try_set(Some(Failure { asked: question.scenario, text }));
        }
        worker::Reply::Broken(text) => {
            answers.failure.try_set(Some(Failure { asked: question.scenario, text }));
        }
    });
    Effect::new(move || {
        let scenario = choice.scenario.get();
        if !rules.is_broken() {
            client.ask(worker::Question { scenario, inputs: performance::open_inputs() });
        }
    });
}

/// Puts a reply's parts together with what the chart needs beside each timeline.
fn answer(id: u64, asked: Scenario, report: Report, timelines: [Timeline; 2]) -> Answer {
    let [first, steady] = timelines;
    let outside = |step: &simulator::wire::report::StepReport| {
        let category = simulator::wire::timeline::Category::OutsidePool;
        let row = step.categories.iter().find(|row| row.category == category);
        row.map_or(0, |row| row.bytes.get())
    };
    let data = |timeline, step: &simulator::wire::report::StepReport, id| TimelineData {
        timeline,
        capacity_bytes: report.verdict.limit_bytes.get(),
        outside_pool_bytes: outside(step),
        already_used_bytes: report.scenario.hardware.already_used_bytes,
        band_bytes: report.verdict.band_bytes.get(),
        peak_event: step.peak_event,
        id,
    };
    let first = Arc::new(data(first, &report.first, 2 * id));
    let steady = Arc::new(data(steady, &report.steady, 2 * id + 1));
    Answer { id, asked, report, first, steady }
}
