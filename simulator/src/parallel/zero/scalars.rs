//! The small tensors around a norm and a check for infinities: each takes a block of 512 bytes.

use crate::clock::{Update, Work};
use crate::primitives::update;
use crate::tape::{Prim, StorageId, Tape};
use crate::tensor::DType;

/// Makes tensors of these sizes, bytes, one after the other.
fn make<const N: usize>(tape: &mut Tape, sizes: [u64; N]) -> [StorageId; N] {
    sizes.map(|size| tape.allocate(size, Prim::ClipGrad))
}

fn free(tape: &mut Tape, storages: impl IntoIterator<Item = StorageId>) {
    storages.into_iter().for_each(|storage| tape.release_storage(storage));
}

/// `torch.isfinite(x)` of one number: `(x == x) * (x.abs() != inf)`.
fn is_finite(tape: &mut Tape, size: u64) -> StorageId {
    let [abs, differs, equals, both] = make(tape, [size, 1, 1, 1]);
    free(tape, [equals, differs, abs]);
    both
}

/// `has_inf_or_nan(gradient)` (`runtime/utils.py`): the largest and the smallest element.
pub(super) fn has_inf_or_nan(tape: &mut Tape, elements: u64, dtype: DType) {
    let extreme = |tape: &mut Tape| {
        let [extreme] = make(tape, [dtype.bytes()]);
        tape.run(Prim::ClipGrad, update(Update::Foreach, 1, dtype, elements * dtype.bytes()));
        let finite = is_finite(tape, dtype.bytes());
        tape.release_storage(extreme);
        finite
    };
    let [largest, smallest] = [extreme(tape), extreme(tape)];
    let [both] = make(tape, [1]);
    free(tape, [largest, smallest]);
    let [flag] = make(tape, [1]);
    free(tape, [both, flag]);
}

/// `has_overflow` over gradients of these sizes (`has_overflow_partitioned_grads_serial`).
pub(super) fn check_overflow(tape: &mut Tape, gradients: &[u64], dtype: DType) {
    let [count] = make(tape, [4]);
    for &elements in gradients {
        has_inf_or_nan(tape, elements, dtype);
    }
    let [flag] = make(tape, [1]);
    tape.release_storage(count);
    let [byte] = make(tape, [1]);
    tape.release_storage(flag);
    tape.run(Prim::ClipGrad, Work::synchronize());
    tape.release_storage(byte);
}

/// Norms of gradients of these sizes, each from a copy in fp64, then the norm of all
/// (`get_grad_norm_direct`, `combine_grad_norm_groups`). Returns the norm.
///
/// # Formula
///
/// ```text
/// copy = 8 B · elements of the gradient
/// ```
pub(super) fn total_norm(tape: &mut Tape, gradients: &[u64]) -> StorageId {
    let norms: Vec<StorageId> =
        gradients.iter().map(|&elements| norm_in_fp64(tape, elements)).collect();
    let n = norms.len() as u64;
    let [stack, power, sum] = make(tape, [8 * n, 8 * n, 8]);
    free(tape, [stack, power]);
    let [narrow] = make(tape, [4]);
    tape.release_storage(sum);
    let [root] = make(tape, [4]);
    tape.release_storage(narrow);
    mask_invalid(tape);
    free(tape, norms);
    let total = combined(tape);
    tape.release_storage(root);
    total
}

/// `vector_norm(gradient.to(torch.double))`.
pub(super) fn norm_in_fp64(tape: &mut Tape, elements: u64) -> StorageId {
    let [copy, norm] = make(tape, [8 * elements, 8]);
    tape.run(Prim::ClipGrad, update(Update::Foreach, 1, DType::F32, 12 * elements));
    tape.release_storage(copy);
    norm
}

/// `mask_nan_or_inf_with_val_inplace`.
pub(super) fn mask_invalid(tape: &mut Tape) {
    let [abs, infinite] = make(tape, [4, 1]);
    tape.release_storage(abs);
    let [nan, either, replacement] = make(tape, [1, 1, 4]);
    free(tape, [replacement, either, nan, infinite]);
}

/// `combine_grad_norm_groups` of one group, then `is_invalid_grad_norm`.
pub(super) fn combined(tape: &mut Tape) -> StorageId {
    let [stack] = make(tape, [4]);
    let invalid = is_invalid(tape);
    let [norm, infinity, chosen] = make(tape, [4, 4, 4]);
    free(tape, [infinity, stack, invalid, norm]);
    let flag = is_invalid(tape);
    tape.run(Prim::ClipGrad, Work::synchronize());
    tape.release_storage(flag);
    chosen
}

/// `(~torch.isfinite(norm) | (norm < 0)).any()`.
fn is_invalid(tape: &mut Tape) -> StorageId {
    let finite = is_finite(tape, 4);
    let [not] = make(tape, [1]);
    tape.release_storage(finite);
    let [negative, either] = make(tape, [1, 1]);
    free(tape, [not, negative]);
    let [any] = make(tape, [1]);
    tape.release_storage(either);
    any
}

/// `unscale_and_clip_grads`: the factor, then the gradient in place.
pub(super) fn clip(tape: &mut Tape, elements: u64, dtype: DType) {
    let flag = is_invalid(tape);
    tape.release_storage(flag);
    let [ratio, sum] = make(tape, [4, 4]);
    tape.release_storage(ratio);
    let [clip] = make(tape, [4]);
    tape.release_storage(sum);
    let [clamped] = make(tape, [4]);
    tape.release_storage(clip);
    let [scale, reciprocal, factor] = make(tape, [4, 4, 4]);
    tape.release_storage(reciprocal);
    let bytes = 2 * elements * dtype.bytes();
    tape.run(Prim::ClipGrad, update(Update::Foreach, 1, dtype, bytes));
    free(tape, [factor, scale, clamped]);
}
