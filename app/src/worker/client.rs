//! The page's side: posts the latest question, respawns a worker that trapped.

use std::cell::RefCell;
use std::rc::Rc;

use js_sys::{Array, Function, Uint8Array};
use simulator::wire::{Faults, Report, Scenario, Timeline};
use wasm_bindgen::prelude::Closure;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{ErrorEvent, MessageEvent, Worker};

use super::Letter;
use super::columns::unpack;
use crate::performance;

/// What came back for a question.
#[expect(clippy::large_enum_variant, reason = "one reply at a time, moved once")]
pub(crate) enum Reply {
    Answer {
        report: Box<Report>,
        first: Timeline,
        steady: Timeline,
    },
    Faults(Faults),
    /// The worker trapped, with what it said.
    Broken(String),
}

type Deliver = Rc<dyn Fn(Question, Reply)>;

/// A question on its way.
#[derive(Clone)]
pub(crate) struct Question {
    pub scenario: Scenario,
    /// Inputs of the user that it answers, counted by `performance`.
    pub inputs: usize,
}

struct State {
    spawn: Function,
    worker: Option<Worker>,
    is_ready: bool,
    next_id: u32,
    in_flight: Option<(u32, Question)>,
    waiting: Option<Question>,
    deliver: Deliver,
    on_message: Option<Closure<dyn FnMut(MessageEvent)>>,
    on_error: Option<Closure<dyn FnMut(ErrorEvent)>>,
}

/// The page's end of the worker.
#[derive(Clone)]
pub(crate) struct Client(Rc<RefCell<State>>);

impl Client {
    /// Starts a worker; `spawn` makes one that already holds the compiled module.
    pub(crate) fn start(spawn: Function, deliver: impl Fn(Question, Reply) + 'static) -> Self {
        let client = Self(Rc::new(RefCell::new(State {
            spawn,
            worker: None,
            is_ready: false,
            next_id: 0,
            in_flight: None,
            waiting: None,
            deliver: Rc::new(deliver),
            on_message: None,
            on_error: None,
        })));
        let here = client.clone();
        let on_message = Closure::new(move |event: MessageEvent| here.take(&event));
        let here = client.clone();
        let on_error = Closure::new(move |event: ErrorEvent| here.broken(&event));
        {
            let mut state = client.0.borrow_mut();
            state.on_message = Some(on_message);
            state.on_error = Some(on_error);
        }
        client.spawn();
        client
    }

    /// Asks, now or as soon as the worker is free; only the latest question is kept.
    pub(crate) fn ask(&self, question: Question) {
        self.0.borrow_mut().waiting = Some(question);
        self.post();
    }

    fn spawn(&self) {
        let mut state = self.0.borrow_mut();
        state.is_ready = false;
        let worker = state.spawn.call0(&JsValue::NULL).ok();
        let worker = worker.and_then(|worker| worker.dyn_into::<Worker>().ok());
        if let (Some(worker), Some(on_message), Some(on_error)) =
            (&worker, &state.on_message, &state.on_error)
        {
            worker.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
            worker.set_onerror(Some(on_error.as_ref().unchecked_ref()));
        }
        state.worker = worker;
    }

    /// Posts the waiting question if the worker is free.
    fn post(&self) {
        let mut state = self.0.borrow_mut();
        if !state.is_ready || state.in_flight.is_some() {
            return;
        }
        let Some(question) = state.waiting.take() else { return };
        let id = state.next_id;
        state.next_id = id.wrapping_add(1);
        let json = serde_json::to_vec(&question.scenario).unwrap_or_default();
        let message = Array::of2(&JsValue::from(id), &Uint8Array::from(json.as_slice()));
        if let Some(worker) = &state.worker {
            drop(worker.post_message(&message));
        }
        state.in_flight = Some((id, question));
    }

    fn take(&self, event: &MessageEvent) {
        let data = event.data();
        if data.is_null() {
            self.0.borrow_mut().is_ready = true;
            self.post();
            return;
        }
        let message: Array = data.unchecked_into();
        let question = {
            let mut state = self.0.borrow_mut();
            let is_expected = state.in_flight.as_ref().is_some_and(|(id, _)| message.get(0) == *id);
            if is_expected { state.in_flight.take() } else { None }
        };
        let Some((_, question)) = question else { return };
        performance::simulated(message.get(1).as_f64().unwrap_or_default());
        // The worker goes on with the next question while the page shows this answer.
        self.post();
        let reply = read(&message).unwrap_or_else(|| Reply::Broken("unreadable reply".into()));
        self.deliver(question, reply);
    }

    fn broken(&self, event: &ErrorEvent) {
        event.prevent_default();
        let (question, was_ready) = {
            let mut state = self.0.borrow_mut();
            if let Some(worker) = state.worker.take() {
                worker.terminate();
            }
            let was_ready = state.is_ready;
            // One that never came up would fail again.
            let failed = if was_ready { None } else { state.waiting.take() };
            (state.in_flight.take().map(|(_, question)| question).or(failed), was_ready)
        };
        if was_ready {
            self.spawn();
        }
        if let Some(question) = question {
            self.deliver(question, Reply::Broken(event.message()));
        }
    }

    fn deliver(&self, question: Question, reply: Reply) {
        let deliver = Rc::clone(&self.0.borrow().deliver);
        deliver(question, reply);
    }
}

fn read(message: &Array) -> Option<Reply> {
    let json = message.get(2).dyn_into::<Uint8Array>().ok()?.to_vec();
    Some(match serde_json::from_slice::<Letter>(&json).ok()? {
        Letter::Faults(faults) => Reply::Faults(faults),
        Letter::Answer { report, first, steady } => {
            let columns = |index| message.get(index).dyn_into::<Array>().ok();
            Reply::Answer {
                report,
                first: unpack(first, &columns(3)?)?,
                steady: unpack(steady, &columns(4)?)?,
            }
        }
    })
}
