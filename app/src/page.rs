//! The plan's page: its state, made from the address, and the frame around form and answer.

use std::sync::Arc;

use js_sys::Function;
use leptos::prelude::*;
use simulator::wire::Scenario;
use simulator::wire::report::StepKind;

use crate::engine::{self, Rules};
use crate::erased::{aria, derived, flag};
use crate::form::{Import, ScenarioForm, listen_for_drops};
use crate::help::{HelpDialog, listen_for_keys};
use crate::plan::Plan;
use crate::share::ShareDialog;
use crate::state::{Answers, Choice, Look, Settings, Tab};
use crate::timeline::View;
use crate::topbar::TopBar;
use crate::url::{Link, LinkFault};
use crate::{address, asking, dom};

/// What a link says beyond its plan: shown once above the answer.
#[derive(Clone, Copy)]
pub(crate) struct Notice(pub RwSignal<Option<NoticeKind>>);

/// Why there is a notice.
#[derive(Clone, PartialEq)]
pub(crate) enum NoticeKind {
    LinkNewer,
    LinkBroken,
    /// The peak that the link's maker saw for that plan, under other prediction rules.
    Predicted {
        plan: Arc<Scenario>,
        predictions: u64,
        peak_bytes: u64,
    },
}

/// The plan with all its state.
#[component]
pub(crate) fn Page(link: Result<Option<Box<Link>>, LinkFault>, spawn: Function) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let default = engine::presets()[0].scenario.clone();
    let (link, fault) = match link {
        Ok(link) => (link, None),
        Err(fault) => (None, Some(fault)),
    };
    let scenario = link.as_ref().map_or_else(|| default.clone(), |link| link.scenario.clone());
    let choice = Choice::new(scenario.clone(), scenario.clone());
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
            plan: Arc::new(scenario.clone()),
            predictions: answered.predictions,
            peak_bytes: answered.peak_bytes,
        }),
    };
    let import = Import::new(choice, look);
    provide_context(settings.of_timeline());
    provide_context(choice);
    provide_context(look);
    provide_context(answers);
    provide_context(Rules::new(choice));
    provide_context(import);
    let notice = RwSignal::new(notice);
    provide_context(Notice(notice));
    asking::ask(choice, look, answers, spawn);
    let is_newer = move || notice.with(|notice| matches!(notice, Some(NoticeKind::LinkNewer)));
    address::follow(choice, look, answers, derived(is_newer));
    listen_for_keys(choice, look);
    listen_for_drops(import);
    view! { <Frame /> }
}

/// Form, answer and dialogs; on a narrow screen the form is a sheet over the answer.
#[component]
fn Frame() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let sheet = RwSignal::new(false);
    let open_sheet = move |_| {
        sheet.set(true);
        request_animation_frame(|| dom::focus("sheet-done"));
    };
    let close_sheet = move || {
        sheet.set(false);
        request_animation_frame(|| dom::focus("sheet-open"));
    };
    let sheet_key = move |event: web_sys::KeyboardEvent| {
        if event.key() == "Escape" && sheet.get_untracked() && !event.default_prevented() {
            close_sheet();
        }
    };
    view! {
        <a class="skip" href="#answer">{settings.word(|w| w.shell.skip)}</a>
        <TopBar />
        <div class="columns">
            <aside
                class="side"
                class:open=flag(move || sheet.get())
                aria-label=settings.word(|w| w.shell.inputs)
                on:keydown=sheet_key
            >
                <button
                    type="button"
                    id="sheet-done"
                    class="button sheet-done"
                    on:click=move |_| close_sheet()
                >
                    {settings.word(|w| w.shell.done)}
                </button>
                <ScenarioForm />
            </aside>
            <main class="main" id="main"><Plan /></main>
            <button
                type="button"
                id="sheet-open"
                class="button primary sheet-open"
                aria-controls="inputs"
                aria-expanded=aria(move || sheet.get())
                on:click=open_sheet
            >
                {settings.word(|w| w.shell.inputs)}
            </button>
        </div>
        <ShareDialog />
        <HelpDialog />
    }
}
