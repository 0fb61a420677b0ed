//! How long a change takes to reach the eye, as marks that a test or a person's profiler can read.
//!
//! Every change of the scenario is an *input*. When the first frame with an answer to it (or to a
//! later one) has been painted, a measure `tidemark:input-to-frame` spans the two. The end is
//! taken in a task after the frame's callbacks, so layout and paint are part of it.

use std::cell::RefCell;

use js_sys::{Function, Object, Reflect};
use leptos::prelude::{request_animation_frame, set_timeout};
use wasm_bindgen::JsCast;
use web_sys::Performance;

const INPUT_TO_FRAME: &str = "tidemark:input-to-frame";
/// What the simulator alone took, in the worker; it ends when the page hears of it.
const SIMULATE: &str = "tidemark:simulate";

thread_local! {
    static OPEN: RefCell<Vec<f64>> = const { RefCell::new(Vec::new()) };
}

/// The clock of the page, or of the worker.
fn clock() -> Option<Performance> {
    Reflect::get(&js_sys::global(), &"performance".into()).ok()?.dyn_into().ok()
}

/// Milliseconds since the page's start.
pub(crate) fn now() -> f64 {
    clock().map_or(0.0, |clock| clock.now())
}

/// The user changed something: from the event being handled, or else from now.
pub(crate) fn input() {
    let event = web_sys::window().map(|window| window.event());
    let event = event.and_then(|event| event.dyn_into::<web_sys::Event>().ok());
    let at = event.map(|event| event.time_stamp()).filter(|at| 0.0 < *at).unwrap_or_else(now);
    OPEN.with_borrow_mut(|open| open.push(at));
}

/// The inputs made so far; the caller keeps their count with the question it asks.
pub(crate) fn open_inputs() -> usize {
    OPEN.with_borrow(Vec::len)
}

/// The answer to the `n` oldest open inputs is in the page: measure them once it is painted.
pub(crate) fn answered(n: usize) {
    let starts: Vec<f64> = OPEN.with_borrow_mut(|open| open.drain(..n.min(open.len())).collect());
    if starts.is_empty() {
        return;
    }
    request_animation_frame(move || {
        set_timeout(
            move || {
                let end = now();
                for start in &starts {
                    measure(INPUT_TO_FRAME, *start, end);
                }
            },
            core::time::Duration::ZERO,
        );
    });
}

/// The worker said how long the simulator took.
pub(crate) fn simulated(length_ms: f64) {
    let end = now();
    measure(SIMULATE, (end - length_ms).max(0.0), end);
}

/// `performance.measure(name, { start, end })`; web-sys has this signature only as unstable.
fn measure(name: &str, start: f64, end: f64) {
    let options = Object::new();
    for (key, value) in [("start", start), ("end", end)] {
        drop(Reflect::set(&options, &key.into(), &value.into()));
    }
    let Some(clock) = clock() else { return };
    let function = Reflect::get(&clock, &"measure".into()).ok();
    if let Some(function) = function.and_then(|f| f.dyn_into::<Function>().ok()) {
        drop(function.call2(&clock, &name.into(), &options));
    }
}
