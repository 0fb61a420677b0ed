//! The menu of files: what stands on the page, for other programs and for people.

use std::sync::Arc;

use leptos::prelude::*;
use simulator::export::{chrome_trace, csv};
use simulator::wire::report::StepKind;

use crate::dom;
use crate::erased::derived;
use crate::state::{Answer, Answers, Choice, Look, Settings};
use crate::timeline::export::Picture;
use crate::timeline::view_model::tip::Voice;
use crate::words::Share;

/// Width and height of the exported chart, CSS pixels; its PNG has twice as many.
const PICTURE: (f64, f64) = (1280.0, 560.0);

const JSON: &str = "application/json";

/// A kind of file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Csv,
    Png,
    Svg,
    Report,
    Trace,
    Scenario,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Png, Self::Svg, Self::Csv, Self::Report, Self::Trace, Self::Scenario];

    const fn name(self, words: &Share) -> &'static str {
        match self {
            Self::Csv => words.csv,
            Self::Png => words.png,
            Self::Svg => words.svg,
            Self::Report => words.json,
            Self::Trace => words.trace,
            Self::Scenario => words.scenario,
        }
    }

    /// For the button's id.
    const fn word(self) -> &'static str {
        match self {
            Self::Csv => "export-csv",
            Self::Png => "export-png",
            Self::Svg => "export-svg",
            Self::Report => "export-report",
            Self::Trace => "export-trace",
            Self::Scenario => "export-scenario",
        }
    }
}

/// What there is to export.
#[derive(Clone, Copy)]
struct Page {
    settings: Settings,
    choice: Choice,
    look: Look,
    answers: Answers,
}

/// The menu.
#[component]
pub(crate) fn ExportMenu() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let page = Page {
        settings,
        choice: expect_context(),
        look: expect_context(),
        answers: expect_context(),
    };
    let item = move |kind: Kind| {
        view! {
            <button
                type="button"
                id=kind.word()
                popovertarget="export"
                popovertargetaction="hide"
                on:click=move |_| page.save(kind)
            >
                {derived(move || kind.name(&settings.words().share))}
            </button>
        }
        .into_any()
    };
    let items: Vec<AnyView> = Kind::ALL.into_iter().map(item).collect();
    let print = |_| {
        if let Some(window) = dom::window() {
            drop(window.print());
        }
    };
    view! {
        <button type="button" class="tool text" id="open-export" popovertarget="export">
            {settings.word(|w| w.shell.export)}
        </button>
        <div id="export" class="menu" popover="auto">
            {items}
            <button type="button" popovertarget="export" popovertargetaction="hide" on:click=print>
                {settings.word(|w| w.share.print)}
            </button>
        </div>
    }
}

impl Page {
    fn save(self, kind: Kind) {
        let Some(answer) = self.answers.latest.get_untracked() else { return };
        let timeline = &answer.timeline.timeline;
        let report = &answer.report;
        let name = |extension: &str| file_name(&answer, extension);
        match kind {
            Kind::Csv => {
                dom::download(&name("csv"), "text/csv", csv(report, timeline).as_bytes());
            }
            Kind::Trace => {
                let text = chrome_trace(report, timeline);
                dom::download(&name("trace.json"), JSON, text.as_bytes());
            }
            Kind::Report => {
                let text = serde_json::to_vec(report).unwrap_or_default();
                dom::download(&name("report.json"), JSON, &text);
            }
            Kind::Scenario => {
                let text = self.choice.scenario.with_untracked(serde_json::to_vec);
                dom::download(&name("scenario.json"), JSON, &text.unwrap_or_default());
            }
            Kind::Svg => {
                if let Some(text) = self.picture(&answer).svg() {
                    dom::download(&name("svg"), "image/svg+xml", text.as_bytes());
                }
            }
            Kind::Png => {
                let name = name("png");
                // Without a canvas there is no picture, and nothing to say about it.
                let _drawn =
                    self.picture(&answer).png(move |blob| dom::download_blob(&name, &blob));
            }
        }
    }

    fn picture(self, answer: &Answer) -> Picture {
        let report = &answer.report;
        let timeline = self.settings.of_timeline();
        Picture {
            data: Arc::clone(&answer.timeline),
            view: self.look.view.get_untracked(),
            voice: untrack(|| Voice { words: timeline.words.get(), unit: timeline.unit.get() }),
            size: PICTURE,
            title: format!("{} · {}", report.model.name, report.gpu.name),
        }
    }
}

/// `tidemark-llama-3.2-1b-steady.csv`
fn file_name(answer: &Answer, extension: &str) -> String {
    let model: String = answer.report.model.name.to_lowercase();
    let model: String = model
        .chars()
        .map(|letter| if letter.is_alphanumeric() || letter == '.' { letter } else { '-' })
        .collect();
    let step = match answer.step {
        StepKind::First => "first",
        StepKind::Steady => "steady",
    };
    format!("tidemark-{model}-{step}.{extension}")
}
