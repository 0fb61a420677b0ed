//! The page's side: posts questions, hands on replies, respawns a worker that trapped.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use js_sys::{Array, Function, Uint8Array};
use simulator::wire::report::StepKind;
use simulator::wire::{Report, Scenario, Timeline};
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
        /// Of the step that was asked for.
        timeline: Timeline,
    },
    /// The worker trapped, with what it said.
    Broken(String),
}

type Deliver = Rc<dyn Fn(Question, Reply)>;

/// A question on its way.
#[derive(Clone)]
pub(crate) struct Question {
    pub scenario: Scenario,
    /// Which step is drawn.
    pub step: StepKind,
    /// Inputs of the user that it answers, counted by `performance`.
    pub inputs: usize,
}

struct State {
    spawn: Function,
    worker: Option<Worker>,
    is_ready: bool,
    next_id: u32,
    /// Posted and not yet answered, oldest first.
    posted: VecDeque<(u32, Question)>,
    /// The latest question from before the worker listened.
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
            posted: VecDeque::new(),
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

    /// Asks, now or as soon as the worker listens; the latest question is the one that is answered.
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

    /// Posts the waiting question if the worker listens.
    fn post(&self) {
        let mut state = self.0.borrow_mut();
        if !state.is_ready {
            return;
        }
        let Some(question) = state.waiting.take() else { return };
        let id = state.next_id;
        state.next_id = id.wrapping_add(1);
        let json = serde_json::to_vec(&question.scenario).unwrap_or_default();
        let is_first = question.step == StepKind::First;
        let json = Uint8Array::from(json.as_slice());
        let message = Array::of3(&JsValue::from(id), &json, &JsValue::from(is_first));
        if let Some(worker) = &state.worker {
            drop(worker.post_message(&message));
        }
        state.posted.push_back((id, question));
    }

    fn take(&self, event: &MessageEvent) {
        let data = event.data();
        if data.is_null() {
            self.0.borrow_mut().is_ready = true;
            self.post();
            return;
        }
        let message: Array = data.unchecked_into();
        let Some(question) = self.answered(&message.get(0)) else { return };
        performance::simulated(message.get(1).as_f64().unwrap_or_default());
        let reply =
            read(&message, &question).unwrap_or_else(|| Reply::Broken("unreadable reply".into()));
        self.deliver(question, reply);
    }

    /// The question of this number; those before it were left out by the worker.
    fn answered(&self, number: &JsValue) -> Option<Question> {
        let mut state = self.0.borrow_mut();
        let place = state.posted.iter().position(|(id, _)| *number == *id)?;
        state.posted.drain(..=place).next_back().map(|(_, question)| question)
    }

    /// With several questions on their way, any may have been the one: the newest is asked again.
    fn broken(&self, event: &ErrorEvent) {
        event.prevent_default();
        let (question, was_ready) = {
            let mut state = self.0.borrow_mut();
            if let Some(worker) = state.worker.take() {
                worker.terminate();
            }
            let was_ready = state.is_ready;
            let newest = state.posted.pop_back().map(|(_, question)| question);
            let is_alone = state.posted.is_empty();
            state.posted.clear();
            // One that never came up would fail again.
            let newest = if was_ready { newest } else { state.waiting.take() };
            if is_alone {
                (newest, was_ready)
            } else {
                state.waiting = newest;
                (None, was_ready)
            }
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

fn read(message: &Array, question: &Question) -> Option<Reply> {
    let letter = message.get(2).dyn_into::<Uint8Array>().ok()?.to_vec();
    Some(match borsh::from_slice::<Letter>(&letter).ok()? {
        Letter::Faults(faults) => Reply::Broken(faults),
        Letter::Answer(said, head) => {
            let columns = message.get(3).dyn_into::<Array>().ok()?;
            let report = Box::new(said.about(question.scenario.clone()));
            Reply::Answer { report, timeline: unpack(head, &columns)? }
        }
    })
}
