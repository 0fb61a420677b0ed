//! From the plan to the worker, and from its replies to the answers.

use std::sync::Arc;

use js_sys::Function;
use leptos::prelude::*;
use simulator::wire::timeline::Category;
use simulator::wire::{Report, Timeline};

use crate::engine::Rules;
use crate::erased::effect;
use crate::state::{Answer, Answers, Choice, Failure, Look};
use crate::timeline::TimelineData;
use crate::worker::Question;
use crate::{performance, worker};

/// Asks the worker whenever the plan changes and is legal; its replies are the only place where
/// something other than the user writes a signal.
pub(crate) fn ask(choice: Choice, look: Look, answers: Answers, spawn: Function) {
    let rules = Rules::here();
    let mut next_id = 0;
    let next_id = core::cell::RefCell::new(move || {
        next_id += 1;
        next_id
    });
    let client = worker::Client::start(spawn, move |question, reply| match reply {
        worker::Reply::Answer { report, timeline } => {
            let id = (next_id.borrow_mut())();
            let inputs = question.inputs;
            let answer = answer(id, question, *report, timeline);
            answers.latest.try_set(Some(Arc::new(answer)));
            performance::answered(inputs);
        }
        worker::Reply::Broken(text) => {
            answers.failure.try_set(Some(Failure { asked: question.scenario, text }));
        }
    });
    effect(move || {
        let scenario = choice.scenario.get();
        if !rules.is_broken() {
            let inputs = performance::open_inputs();
            client.ask(Question { scenario, step: look.step.get(), inputs });
        }
    });
}

/// Puts a reply's parts together with what the chart needs beside the timeline.
fn answer(id: u64, question: Question, report: Report, timeline: Timeline) -> Answer {
    let shown = report.step(question.step);
    let timeline = TimelineData {
        timeline,
        capacity_bytes: report.verdict.limit_bytes.get(),
        outside_pool_bytes: shown.category(Category::OutsidePool).get(),
        already_used_bytes: report.scenario.hardware.already_used_bytes,
        band_bytes: report.verdict.band_bytes.get(),
        peak_event: shown.peak_event,
        id,
    };
    let (asked, step) = (question.scenario, question.step);
    Answer { id, asked, report, step, timeline: Arc::new(timeline) }
}
