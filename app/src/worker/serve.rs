//! The worker's side: one question in, one reply out.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use js_sys::{Array, Function, Uint8Array};
use simulator::Simulation;
use simulator::scenario::{from_value, validate};
use simulator::wire::Scenario;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{DedicatedWorkerGlobalScope, MessageEvent};

use super::columns::{Head, pack};
use super::{Letter, Said};
use crate::performance;

/// Listens for questions, and says that it does.
pub(crate) fn serve() {
    let Ok(scope) = js_sys::global().dyn_into::<DedicatedWorkerGlobalScope>() else { return };
    let newest = Rc::new(RefCell::new(None::<Array>));
    let (here, asked) = (scope.clone(), Rc::clone(&newest));
    let warming = Rc::new(Warming::default());
    let warm = Rc::clone(&warming);
    let work = Closure::<dyn Fn()>::new(move || {
        if let Some(question) = asked.take() {
            let transfer = Array::new();
            let reply = answer(&question, &transfer);
            drop(here.post_message_with_transfer(&reply, &transfer));
            warm.after(question);
        } else {
            warm.run();
        }
        warm.go_on(&here);
    });
    warming.task.set(work.into_js_value().unchecked_into()).ok();
    let here = scope.clone();
    let listen = Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| {
        let is_first = newest.replace(Some(event.data().unchecked_into())).is_none();
        // A task of its own runs after the messages that have come by now.
        if is_first {
            warming.schedule(&here, 0);
        }
    });
    scope.set_onmessage(Some(listen.as_ref().unchecked_ref()));
    // The worker listens as long as it lives.
    listen.forget();
    drop(scope.post_message(&JsValue::NULL));
}

/// The browser compiles what has run often, and better the oftener: a person's first drag would find the
/// simulator at a third of its speed. While nobody asks, the last question is answered a few times more,
/// for nothing.
#[derive(Default)]
struct Warming {
    task: OnceCell<Function>,
    question: RefCell<Option<Array>>,
    runs: Cell<u32>,
}

impl Warming {
    /// Enough for the functions that matter.
    const RUNS: u32 = 10;
    /// Between two runs, ms: a question that comes meanwhile waits for one run at most.
    const PAUSE_MS: i32 = 20;
    /// A question that takes longer than this, ms, is not repeated.
    const QUICK_MS: f64 = 60.0;

    fn after(&self, question: Array) {
        self.question.replace(Some(question));
    }

    fn run(&self) {
        let Some(question) = self.question.borrow().clone() else { return };
        let start = performance::now();
        drop(answer(&question, &Array::new()));
        let is_quick = performance::now() - start < Self::QUICK_MS;
        self.runs.set(if is_quick { self.runs.get() + 1 } else { Self::RUNS });
    }

    fn go_on(&self, scope: &DedicatedWorkerGlobalScope) {
        if self.runs.get() < Self::RUNS {
            self.schedule(scope, Self::PAUSE_MS);
        }
    }

    fn schedule(&self, scope: &DedicatedWorkerGlobalScope, after_ms: i32) {
        let Some(task) = self.task.get() else { return };
        drop(scope.set_timeout_with_callback_and_timeout_and_arguments_0(task, after_ms));
    }
}

/// `[id, JSON, whether the first step is looked at]` → `[id, ms, letter, columns of that step]`, where
/// the milliseconds are the simulator's alone.
fn answer(question: &Array, transfer: &Array) -> Array {
    let bytes = Uint8Array::new(&question.get(1)).to_vec();
    let start = performance::now();
    let (letter, columns) = match from_value(&serde_json::from_slice(&bytes).unwrap_or_default()) {
        Ok(scenario) => solve(&scenario, question.get(2).is_truthy(), transfer),
        Err(faults) => (Letter::Faults(faults.to_string()), None),
    };
    let letter = borsh::to_vec(&letter).unwrap_or_default();
    let reply = Array::of2(&question.get(0), &(performance::now() - start).into());
    reply.push(&Uint8Array::from(letter.as_slice()));
    if let Some(columns) = columns {
        reply.push(&columns);
    }
    reply
}

fn solve(scenario: &Scenario, is_first: bool, transfer: &Array) -> (Letter, Option<Array>) {
    let valid = match validate(scenario, crate::engine::catalog()) {
        Ok(valid) => valid,
        Err(faults) => return (Letter::Faults(faults.to_string()), None),
    };
    let Simulation { report, first, steady } = simulator::simulate(&valid);
    let mut shown = if is_first { first } else { steady };
    let head = Head::take(&mut shown);
    (Letter::Answer(Said::of(report), head), Some(pack(&shown, transfer)))
}
