//! Attention masks: `create_causal_mask` in transformers' `masking_utils.py`.

use crate::tape::{Block, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::scenario::Attention;

/// Looks for packed sequences and, for eager attention, makes the additive mask.
///
/// SDPA gets no mask: causality is a flag of the kernel (`_ignore_causal_mask_sdpa`).
pub(super) fn causal(
    tape: &mut Tape,
    batch: u64,
    tokens: u64,
    dtype: DType,
    attention: Attention,
) -> Option<Tensor> {
    tape.enter(Block::Mask, "causal_mask");
    let packed = packed_sequences(tape, batch, tokens);
    match attention {
        Attention::Sdpa => {
            for tensor in packed {
                tape.release(tensor);
            }
            None
        }
        Attention::Eager => Some(additive(tape, batch, tokens, dtype, packed)),
    }
}

/// `find_packed_sequence_indices`: differences of the positions, their running count, and whether
/// the last is zero.
fn packed_sequences(tape: &mut Tape, batch: u64, tokens: u64) -> [Tensor; 3] {
    let integers = |tape: &mut Tape, columns| {
        tape.helper(Shape::new([batch, columns]), DType::I64, Prim::Mask)
    };
    let first = integers(tape, 1);
    let joined = integers(tape, tokens + 1);
    let difference = integers(tape, tokens);
    tape.release(joined);
    let changes = tape.helper(Shape::new([batch, tokens]), DType::Bool, Prim::Mask);
    let indices = integers(tape, tokens);
    let converted = integers(tape, tokens);
    tape.release(converted);
    tape.release(changes);
    let last = tape.helper(Shape::new([batch]), DType::Bool, Prim::Mask);
    let all = tape.helper(Shape::scalar(), DType::Bool, Prim::Mask);
    tape.release(last);
    tape.release(all);
    [first, difference, indices]
}

/// `eager_mask`: index vectors, the boolean mask, and zero or the dtype's minimum by `where`.
fn additive(tape: &mut Tape, batch: u64, tokens: u64, dtype: DType, packed: [Tensor; 3]) -> Tensor {
    for tensor in packed {
        tape.release(tensor);
    }
    let integers =
        |tape: &mut Tape, count| tape.helper(Shape::new([count]), DType::I64, Prim::Arange);
    let batches = integers(tape, batch);
    let heads = integers(tape, 1);
    let mut positions = || {
        let from_zero = integers(tape, tokens);
        let shifted = integers(tape, tokens);
        tape.release(from_zero);
        shifted
    };
    let (queries, keys) = (positions(), positions());
    let allowed = tape.helper(Shape::new([1, 1, tokens, tokens]), DType::Bool, Prim::Mask);
    for tensor in [batches, heads, queries, keys] {
        tape.release(tensor);
    }
    let zero = tape.helper(Shape::scalar(), dtype, Prim::Mask);
    let minimum = tape.helper(Shape::scalar(), dtype, Prim::Mask);
    let mask = tape.helper(Shape::new([batch, 1, tokens, tokens]), dtype, Prim::Mask);
    tape.release(minimum);
    tape.release(zero);
    tape.release(allowed);
    mask
}
