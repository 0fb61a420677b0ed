//! A timeline as typed arrays: each column is copied out of one memory, handed over, copied into
//! the other. Strings and phases are few and travel with the report.

use borsh::{BorshDeserialize, BorshSerialize};
use js_sys::{Array, BigUint64Array, Uint8Array, Uint32Array};
use simulator::wire::timeline::{Events, Phase, Tensors, Timeline, Work};
use wasm_bindgen::{JsCast, JsValue};

/// What is not a column.
#[derive(BorshSerialize, BorshDeserialize)]
pub(super) struct Head {
    labels: Vec<String>,
    phases: Vec<Phase>,
    base_bytes: u64,
    base_allocated: u64,
    base_reserved: u64,
    step_ns: u64,
}

impl Head {
    /// Takes the small parts out of a timeline.
    pub(super) fn take(timeline: &mut Timeline) -> Self {
        Self {
            labels: core::mem::take(&mut timeline.labels),
            phases: core::mem::take(&mut timeline.phases),
            base_bytes: timeline.base_bytes,
            base_allocated: timeline.base_allocated,
            base_reserved: timeline.base_reserved,
            step_ns: timeline.step_ns,
        }
    }
}

/// The columns as typed arrays, and their buffers to be transferred.
pub(super) fn pack(timeline: &Timeline, transfer: &Array) -> Array {
    let columns = Array::new();
    let push = |view: &JsValue, buffer: &JsValue| {
        columns.push(view);
        transfer.push(buffer);
    };
    let Timeline { tensors, events, work, .. } = timeline;
    for column in [
        &tensors.bytes,
        &events.time_ns,
        &events.reserved,
        &events.allocated,
        &work.issued_ns,
        &work.start_ns,
        &work.end_ns,
    ] {
        let view = BigUint64Array::from(column.as_slice());
        push(&view, &view.buffer());
    }
    for column in [
        &tensors.born,
        &tensors.freed,
        &tensors.name,
        &tensors.primitive,
        &tensors.block,
        &tensors.layer,
        &events.tensor,
        &work.primitive,
        &work.block,
        &work.layer,
    ] {
        let view = Uint32Array::from(column.as_slice());
        push(&view, &view.buffer());
    }
    for column in [&tensors.category, &events.is_alloc] {
        let view = Uint8Array::from(column.as_slice());
        push(&view, &view.buffer());
    }
    columns
}

/// The timeline from its columns, in the order of [`pack`].
pub(super) fn unpack(head: Head, columns: &Array) -> Option<Timeline> {
    let mut next = 0;
    let mut take = || {
        let value = columns.get(next);
        next += 1;
        value
    };
    let mut wide = || take().dyn_into::<BigUint64Array>().ok().map(|column| column.to_vec());
    let (bytes, time_ns, reserved, allocated) = (wide()?, wide()?, wide()?, wide()?);
    let (issued_ns, start_ns, end_ns) = (wide()?, wide()?, wide()?);
    let mut middle = || take().dyn_into::<Uint32Array>().ok().map(|column| column.to_vec());
    let (born, freed, name) = (middle()?, middle()?, middle()?);
    let (primitive, block, layer) = (middle()?, middle()?, middle()?);
    let tensor = middle()?;
    let (work_primitive, work_block, work_layer) = (middle()?, middle()?, middle()?);
    let mut narrow = || take().dyn_into::<Uint8Array>().ok().map(|column| column.to_vec());
    let (category, is_alloc) = (narrow()?, narrow()?);
    Some(Timeline {
        labels: head.labels,
        tensors: Tensors { bytes, born, freed, category, name, primitive, block, layer },
        events: Events { time_ns, tensor, is_alloc, reserved, allocated },
        phases: head.phases,
        work: Work {
            primitive: work_primitive,
            block: work_block,
            layer: work_layer,
            issued_ns,
            start_ns,
            end_ns,
        },
        base_bytes: head.base_bytes,
        base_allocated: head.base_allocated,
        base_reserved: head.base_reserved,
        step_ns: head.step_ns,
    })
}
