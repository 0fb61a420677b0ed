//! What each optimizer keeps for a parameter, made at its first step.

use crate::clock::Pointwise;
use crate::primitives::pointwise;
use crate::tape::{ParamId, Prim, Tape};
use crate::wire::scenario::{Implementation, Optimizer, OptimizerName};
use crate::wire::timeline::Category;

use super::{gradient_bytes, is_matrix_of_layer};

/// Elements below which bitsandbytes keeps fp32 states (`min_8bit_size`).
const MIN_8BIT_SIZE: u64 = 4096;
/// Elements that share one scale (`blocksize`).
const BLOCK_8BIT: u64 = 256;
/// Bytes of a map from 8 bits to fp32 (`create_dynamic_map`).
const MAP_BYTES: u64 = 256 * 4;

/// Makes the states of a parameter that has none yet.
pub(super) fn create(tape: &mut Tape, optimizer: &Optimizer, id: ParamId, is_first: bool) {
    if !tape.param(id).states.is_empty() {
        return;
    }
    let sizes = sizes(tape, optimizer, id, is_first);
    tape.enter_layer(tape.param(id).layer);
    for size in sizes {
        let state = tape.allocate(size, Prim::State);
        tape.own(state, id, Category::OptimizerStates);
        tape.param_mut(id).states.push(state);
    }
    let (dtype, bytes) = (tape.param(id).local_dtype(), gradient_bytes(tape, id));
    tape.run(Prim::State, pointwise(Pointwise::Unary, dtype, bytes));
}

/// Bytes of each state, in the order in which they are made.
///
/// Sources: PyTorch 2.11, `torch/optim/{adam,sgd,_adafactor,rmsprop,_muon}.py`: `_init_group`; the fused
/// `AdamW` keeps its step count on the GPU. lion-pytorch, `lion_pytorch.py`. bitsandbytes,
/// `optim/optimizer.py`, `Optimizer2State.init_state` (2026-08-19): a byte an element and an fp32 scale
/// for each 256; the maps of both moments come with the first such parameter.
fn sizes(tape: &Tape, optimizer: &Optimizer, id: ParamId, is_first: bool) -> Vec<u64> {
    let bytes = gradient_bytes(tape, id);
    let param = tape.param(id);
    let elements = param.local_elements();
    let has_momentum = optimizer.momentum.is_some_and(|momentum| 0.0 < momentum);
    match (optimizer.name, optimizer.implementation) {
        (OptimizerName::Adamw, Implementation::Fused) => vec![4, bytes, bytes],
        (OptimizerName::Adamw, _) => vec![bytes; 2],
        (OptimizerName::Sgd, _) => vec![bytes; usize::from(has_momentum)],
        (OptimizerName::Rmsprop, _) => {
            vec![bytes; 1 + usize::from(has_momentum) + usize::from(optimizer.centered)]
        }
        (OptimizerName::Adafactor, _) => match *param.shape.sizes() {
            [.., rows, columns] => vec![bytes / columns, bytes / rows],
            _ => vec![bytes],
        },
        (OptimizerName::Lion, _) => vec![bytes],
        (OptimizerName::Muon, _) => {
            vec![bytes; if is_matrix_of_layer(tape, id) { 1 } else { 2 }]
        }
        (OptimizerName::Adamw8bit, _) if elements < MIN_8BIT_SIZE => vec![4 * elements; 2],
        (OptimizerName::Adamw8bit, _) => {
            let scales = 4 * elements.div_ceil(BLOCK_8BIT);
            let maps: &[u64] = if is_first { &[MAP_BYTES; 2] } else { &[] };
            [maps, &[elements, elements, scales, scales]].concat()
        }
    }
}
