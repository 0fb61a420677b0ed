//! `torch.optim.Adafactor`: second moments of matrices as a row and a column.
//!
//! Source: PyTorch 2.11, `torch/optim/_adafactor.py`.

use crate::clock::{Pass, Update, Work};
use crate::primitives::{product, update};
use crate::tape::{Library, ParamId, Prim, StorageId, Tape};
use crate::tensor::DType;

use super::{each, gradient_bytes, in_place, release_each};

/// A parameter as the optimizer sees it: `[outer, rows, columns]`, or a vector.
#[derive(Clone, Copy)]
struct Seen {
    elements: u64,
    dtype: DType,
    matrix: Option<[u64; 3]>,
}

impl Seen {
    fn of(tape: &Tape, id: ParamId) -> Self {
        let param = tape.param(id);
        let elements = param.shape.elements();
        let matrix = match *param.shape.sizes() {
            [.., rows, columns] => Some([elements / (rows * columns), rows, columns]),
            _ => None,
        };
        Self { elements, dtype: param.dtype, matrix }
    }

    /// `torch.norm(grad, dim=-1, keepdim=True)`.
    fn row_norms(self, tape: &mut Tape, [outer, rows, columns]: [u64; 3]) -> StorageId {
        tape.reduce_rows(outer * rows, columns, self.dtype, Prim::Update)
    }

    /// `torch.norm(grad, dim=-2, keepdim=True)`.
    fn column_norms(self, tape: &mut Tape, [outer, rows, columns]: [u64; 3]) -> StorageId {
        tape.reduce_columns(outer * columns, rows, self.dtype, Prim::Update)
    }

    /// `row_var @ col_var`.
    fn estimate(self, tape: &mut Tape, [outer, rows, columns]: [u64; 3]) -> StorageId {
        let out = tape.allocate(self.elements * self.dtype.bytes(), Prim::Update);
        tape.workspace(Library::Blas);
        tape.run(Prim::Update, product([rows, columns, 1, outer], Pass::Forward, self.dtype));
        out
    }

    /// `row_var.mean(dim=-2, keepdim=True)`.
    fn mean_of_rows(self, tape: &mut Tape, [outer, rows, _]: [u64; 3]) -> StorageId {
        tape.reduce_rows(outer, rows, self.dtype, Prim::Update)
    }

    /// `tensor.norm(2).item()`.
    fn norm_on_host(self, tape: &mut Tape) {
        let norm = tape.reduce_rows(1, self.elements, self.dtype, Prim::Update);
        tape.run(Prim::Update, Work::synchronize());
        tape.release_storage(norm);
    }

    /// A kernel that passes over the tensor.
    fn pass(self, tape: &mut Tape, times: u64) {
        let bytes = times * self.elements * self.dtype.bytes();
        tape.run(Prim::Update, update(Update::Single, 1, self.dtype, bytes));
    }
}

/// `_single_tensor_adafactor`, the default. What a name holds lives until the name is given again.
pub(super) fn one_by_one(tape: &mut Tape, params: &[ParamId]) {
    let mut named = [StorageId::NONE; 4];
    let give = |tape: &mut Tape, name: &mut StorageId, storage: StorageId| {
        tape.release_storage(core::mem::replace(name, storage));
    };
    let [row_mean, col_mean, grad_squared, estimate] = &mut named;
    for &id in params {
        tape.enter_layer(tape.param(id).layer);
        let seen = Seen::of(tape, id);
        seen.norm_on_host(tape);
        let next = if let Some(matrix) = seen.matrix {
            let norms = seen.row_norms(tape, matrix);
            give(tape, row_mean, norms);
            let norms = seen.column_norms(tape, matrix);
            give(tape, col_mean, norms);
            let next = seen.estimate(tape, matrix);
            let mean = seen.mean_of_rows(tape, matrix);
            tape.release_storage(mean);
            next
        } else {
            let bytes = gradient_bytes(tape, id);
            let squared = tape.allocate(bytes, Prim::Update);
            give(tape, grad_squared, squared);
            tape.allocate(bytes, Prim::Update)
        };
        for times in [2, 2, 3] {
            seen.pass(tape, times);
        }
        // `update` is the estimate under a second name, given after the first.
        give(tape, estimate, next);
        seen.norm_on_host(tape);
        seen.pass(tape, 3);
    }
    tape.enter_layer(None);
    for storage in named {
        tape.release_storage(storage);
    }
}

/// `_multi_tensor_adafactor`: first the matrices, then the vectors, or as the first parameter is. What
/// was made of the first group lives until the second has its own.
pub(super) fn foreach(tape: &mut Tape, params: &[ParamId]) {
    let is_matrix = |tape: &Tape, id: ParamId| Seen::of(tape, id).matrix.is_some();
    let Some(first) = params.first().map(|&id| is_matrix(tape, id)) else { return };
    let mut updates: Vec<(ParamId, StorageId)> = Vec::new();
    for kind in [first, !first] {
        let group: Vec<ParamId> =
            params.iter().copied().filter(|&id| is_matrix(tape, id) == kind).collect();
        if group.is_empty() {
            continue;
        }
        norms_on_host(tape, &group);
        let next = if kind { of_matrices(tape, &group) } else { of_vectors(tape, &group) };
        in_place(tape, &group, Update::Foreach, 7);
        release_each(tape, updates.iter().map(|(id, storage)| (id, *storage)).rev());
        updates = group.iter().copied().zip(next).collect();
        norms_on_host(tape, &group);
        in_place(tape, &group, Update::Foreach, 5);
    }
    release_each(tape, updates.iter().map(|(id, storage)| (id, *storage)).rev());
}

fn norms_on_host(tape: &mut Tape, group: &[ParamId]) {
    for &id in group {
        tape.enter_layer(tape.param(id).layer);
        Seen::of(tape, id).norm_on_host(tape);
    }
    tape.enter_layer(None);
}

fn of_matrices(tape: &mut Tape, group: &[ParamId]) -> Vec<StorageId> {
    type Make = fn(Seen, &mut Tape, [u64; 3]) -> StorageId;
    let list = |tape: &mut Tape, make: Make| {
        each(tape, group, |tape, id| {
            let seen = Seen::of(tape, id);
            seen.matrix.map_or(StorageId::NONE, |matrix| make(seen, tape, matrix))
        })
    };
    let drop = |tape: &mut Tape, list: Vec<StorageId>| {
        release_each(tape, group.iter().zip(list).rev());
    };
    let means = list(tape, Seen::row_norms);
    drop(tape, means);
    let means = list(tape, Seen::column_norms);
    drop(tape, means);
    let estimates = list(tape, Seen::estimate);
    let means = list(tape, Seen::mean_of_rows);
    drop(tape, means);
    estimates
}

fn of_vectors(tape: &mut Tape, group: &[ParamId]) -> Vec<StorageId> {
    let list = |tape: &mut Tape| {
        each(tape, group, |tape, id| tape.allocate(gradient_bytes(tape, id), Prim::Update))
    };
    let squares = list(tape);
    release_each(tape, group.iter().zip(squares).rev());
    list(tape)
}
