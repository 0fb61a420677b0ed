//! `torch.optim.Muon`: momentum, made orthogonal by a Newton–Schulz iteration in bf16.
//!
//! Source: PyTorch 2.11, `torch/optim/_muon.py`: `_single_tensor_muon`, `_zeropower_via_newtonschulz`.

use crate::clock::{Pass, Update};
use crate::primitives::{product, update};
use crate::tape::{Library, ParamId, Prim, StorageId, Tape};
use crate::tensor::DType;

use super::gradient_bytes;

/// `ns_steps`.
const ITERATIONS: usize = 5;

/// Matrix after matrix; the name `update` holds one's result until the next one's momentum is there.
pub(super) fn one_by_one(tape: &mut Tape, matrices: &[ParamId]) {
    let mut held = StorageId::NONE;
    for &id in matrices {
        tape.enter_layer(tape.param(id).layer);
        let (dtype, bytes) = (tape.param(id).local_dtype(), gradient_bytes(tape, id));
        let pass = |tape: &mut Tape, times| {
            tape.run(Prim::Update, update(Update::Single, 1, dtype, times * bytes));
        };
        pass(tape, 3);
        // `grad.lerp(buf, momentum)`.
        let momentum = tape.allocate(bytes, Prim::Update);
        pass(tape, 3);
        tape.release_storage(core::mem::replace(&mut held, momentum));
        let orthogonal = orthogonalized(tape, id, momentum);
        tape.release_storage(core::mem::replace(&mut held, orthogonal));
        pass(tape, 2);
        pass(tape, 3);
    }
    tape.enter_layer(None);
    tape.release_storage(held);
}

/// `_zeropower_via_newtonschulz`: five times a Gram matrix, a polynomial of it, and their product.
fn orthogonalized(tape: &mut Tape, id: ParamId, momentum: StorageId) -> StorageId {
    let param = tape.param(id);
    let (elements, dtype) = (param.shape.elements(), param.dtype);
    let narrow = match *param.shape.sizes() {
        [rows, columns] => rows.min(columns),
        _ => 1,
    };
    let wide = elements / narrow;
    let half = |tape: &mut Tape, elements: u64| {
        tape.allocate(elements * DType::BF16.bytes(), Prim::Update)
    };
    // `grad.bfloat16()` is the tensor itself where it is bf16, and then held by its other name.
    let mut ortho_grad = if dtype == DType::BF16 { StorageId::NONE } else { half(tape, elements) };
    let norm = tape.reduce_rows(1, elements, DType::BF16, Prim::Update);
    let clamped = half(tape, 1);
    tape.release_storage(norm);
    tape.release_storage(clamped);
    let (mut gram_matrix, mut gram_update) = (StorageId::NONE, StorageId::NONE);
    let multiply = |tape: &mut Tape, name: &mut StorageId, [m, n, k]: [u64; 3]| {
        let out = half(tape, m * n);
        tape.workspace(Library::Blas);
        tape.run(Prim::Update, product([m, n, k, 1], Pass::Forward, DType::BF16));
        tape.release_storage(core::mem::replace(name, out));
    };
    for _ in 0..ITERATIONS {
        multiply(tape, &mut gram_matrix, [narrow, narrow, wide]);
        multiply(tape, &mut gram_update, [narrow, narrow, narrow]);
        multiply(tape, &mut ortho_grad, [narrow, wide, narrow]);
    }
    debug_assert!(momentum != StorageId::NONE, "the caller holds the momentum until the end");
    tape.release_storage(gram_matrix);
    tape.release_storage(gram_update);
    ortho_grad
}
