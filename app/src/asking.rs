//! From the plan to the worker, and from its replies to the answers.

use std::sync::Arc;

use js_sys::Function;
use leptos::prelude::*;
use simulator::wire::report::StepReport;
use simulator::wire::timeline::Category;
use simulator::wire::{Report, Scenario, Timeline};

use crate::engine::Rules;
use crate::state::{Answer, Answers, Choice, Failure};
use crate::timeline::TimelineData;
use crate::{performance, worker};

/// Asks the worker whenever the plan changes and is legal; its replies are the only place where
/// something other than the user writes a signal.
pub(crate) fn ask(choice: Choice, answers: Answers, spawn: Function) {
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
    let outside = |step: &StepReport| {
        let row = step.categories.iter().find(|row| row.category == Category::OutsidePool);
        row.map_or(0, |row| row.bytes.get())
    };
    let data = |timeline, step: &StepReport, id| TimelineData {
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
