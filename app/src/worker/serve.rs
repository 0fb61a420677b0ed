//! The worker's side: one question in, one reply out.

use js_sys::{Array, Uint8Array};
use simulator::scenario::validate;
use simulator::wire::Scenario;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{DedicatedWorkerGlobalScope, MessageEvent};

use super::Letter;
use super::columns::{Head, pack};
use crate::performance;

/// Listens for questions, and says that it does.
pub(crate) fn serve() {
    let Ok(scope) = js_sys::global().dyn_into::<DedicatedWorkerGlobalScope>() else { return };
    let here = scope.clone();
    let listen = Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| {
        let question: Array = event.data().unchecked_into();
        let transfer = Array::new();
        let reply = answer(&question, &transfer);
        drop(here.post_message_with_transfer(&reply, &transfer));
    });
    scope.set_onmessage(Some(listen.as_ref().unchecked_ref()));
    // The worker listens as long as it lives.
    listen.forget();
    drop(scope.post_message(&JsValue::NULL));
}

/// `[id, JSON]` → `[id, ms, JSON, columns of the first step, columns of the steady step]`, where
/// the milliseconds are the simulator's alone.
fn answer(question: &Array, transfer: &Array) -> Array {
    let bytes = Uint8Array::new(&question.get(1)).to_vec();
    let start = performance::now();
    let (letter, columns) = match serde_json::from_slice::<Scenario>(&bytes) {
        Ok(scenario) => solve(&scenario, transfer),
        Err(error) => {
            let fault =
                simulator::wire::Fault::new("", simulator::wire::Rule::Syntax, error.to_string());
            (Letter::Faults(fault.into()), Vec::new())
        }
    };
    let json = serde_json::to_vec(&letter).unwrap_or_default();
    let reply = Array::of2(&question.get(0), &(performance::now() - start).into());
    reply.push(&Uint8Array::from(json.as_slice()));
    for columns in columns {
        reply.push(&columns);
    }
    reply
}

fn solve(scenario: &Scenario, transfer: &Array) -> (Letter, Vec<Array>) {
    let valid = match validate(scenario, crate::engine::catalog()) {
        Ok(valid) => valid,
        Err(faults) => return (Letter::Faults(faults), Vec::new()),
    };
    let mut simulation = simulator::simulate(&valid);
    let first = Head::take(&mut simulation.first);
    let steady = Head::take(&mut simulation.steady);
    let columns =
        Vec::from([pack(&simulation.first, transfer), pack(&simulation.steady, transfer)]);
    (Letter::Answer { report: Box::new(simulation.report), first, steady }, columns)
}
