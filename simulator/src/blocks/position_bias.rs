//! Relative position biases, and attention with one: `T5Attention.compute_bias` and the two attention
//! functions that add it to the scores.
//!
//! Source: transformers 5.17, `models/t5/modeling_t5.py`, `integrations/sdpa_attention.py`.

use crate::tape::{Block, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::scenario::Attention;

use super::attention::{Inputs, Softmax, attend, softmax};

/// `compute_bias`: looked up in a table for each pair of query and key, `[1, heads, queries, keys]`.
pub(super) fn compute(
    tape: &mut Tape,
    table: ParamId,
    [queries, keys]: [u64; 2],
    bidirectional: bool,
) -> Tensor {
    tape.enter(Block::Attention, "relative_attention_bias");
    let integers = |tape: &mut Tape, n| tape.helper(Shape::new([n]), DType::I64, Prim::Arange);
    let from_zero = integers(tape, queries);
    let context_position = integers(tape, queries);
    tape.release(from_zero);
    let memory_position = integers(tape, keys);
    let pairs = Shape::new([queries, keys]);
    let relative_position = tape.helper(pairs, DType::I64, Prim::Add);
    let relative_position_bucket = bucket(tape, pairs, bidirectional);
    let values = tape.embedding(&relative_position_bucket, table, false);
    let bias = tape.heads_first(&values);
    let locals = [context_position, memory_position, relative_position];
    for tensor in locals.into_iter().chain([relative_position_bucket, values]) {
        tape.release(tensor);
    }
    bias
}

/// `_relative_position_bucket`: small distances each have a bucket, larger ones share them by their
/// logarithm. `relative_buckets += …` on the integer 0 makes a new tensor, on a tensor none.
fn bucket(tape: &mut Tape, pairs: Shape, bidirectional: bool) -> Tensor {
    let of = |tape: &mut Tape, dtype, prim| tape.helper(pairs, dtype, prim);
    let then = |tape: &mut Tape, before: Tensor, dtype, prim| {
        let next = tape.helper(pairs, dtype, prim);
        tape.release(before);
        next
    };
    let mut buckets = None;
    let relative_position = if bidirectional {
        let above = of(tape, DType::Bool, Prim::Mask);
        let long = then(tape, above, DType::I64, Prim::Copy);
        let upper = then(tape, long, DType::I64, Prim::Mul);
        buckets = Some(then(tape, upper, DType::I64, Prim::Add));
        of(tape, DType::I64, Prim::Mask)
    } else {
        let zeros = of(tape, DType::I64, Prim::Mask);
        let least = then(tape, zeros, DType::I64, Prim::Mask);
        then(tape, least, DType::I64, Prim::Neg)
    };
    let is_small = of(tape, DType::Bool, Prim::Mask);
    let mut if_large = of(tape, DType::F32, Prim::Copy);
    for prim in [Prim::Div, Prim::Mask, Prim::Div, Prim::Mul] {
        if_large = then(tape, if_large, DType::F32, prim);
    }
    if_large = then(tape, if_large, DType::I64, Prim::Copy);
    if_large = then(tape, if_large, DType::I64, Prim::Add);
    let last = of(tape, DType::I64, Prim::Mask);
    let bounded = then(tape, last, DType::I64, Prim::Mask);
    tape.release(if_large);
    let chosen = of(tape, DType::I64, Prim::Mask);
    let buckets = match buckets {
        Some(buckets) => {
            tape.release(chosen);
            buckets
        }
        None => then(tape, chosen, DType::I64, Prim::Add),
    };
    for tensor in [relative_position, is_small, bounded] {
        tape.release(tensor);
    }
    buckets
}

/// What attention with a position bias gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Biased<'a> {
    pub(super) query: &'a Tensor,
    pub(super) key: &'a Tensor,
    pub(super) value: &'a Tensor,
    /// Added to the scores.
    pub(super) position_bias: &'a Tensor,
    /// Additive mask of eager attention.
    pub(super) mask: Option<&'a Tensor>,
    pub(super) dropout: f64,
    /// Whether a token sees only itself and those before it.
    pub(super) causal: bool,
}

/// Attention as `[batch, tokens, heads · head_dim]`, and the weights that the eager function returns.
pub(super) fn attend_biased(
    tape: &mut Tape,
    attention: Attention,
    inputs: Biased<'_>,
) -> (Tensor, Option<Tensor>) {
    match attention {
        Attention::Eager => {
            let (output, weights) = eager(tape, inputs);
            (output, Some(weights))
        }
        _ => (sdpa(tape, inputs), None),
    }
}

/// `sdpa_attention_forward`: the bias becomes the mask, causality is written into it.
fn sdpa(tape: &mut Tape, inputs: Biased<'_>) -> Tensor {
    let Biased { query, key, value, position_bias, dropout, .. } = inputs;
    let &[_, _, queries, _] = query.shape.sizes() else { unreachable!("a query has four sizes") };
    // One token sees all there is.
    let mask = if inputs.causal && 1 < queries {
        causal_bias(tape, position_bias)
    } else {
        tape.share(position_bias)
    };
    let inputs = Inputs {
        query,
        key,
        value,
        mask: Some(&mask),
        groups: 1,
        bounded: false,
        dropout,
        causal: false,
        softmax: Softmax::Plain,
    };
    let (output, _) = attend(tape, Attention::Sdpa, inputs);
    tape.release(mask);
    output
}

/// `create_position_bias_mask` without a mask: the dtype's minimum where a key comes later.
fn causal_bias(tape: &mut Tape, position_bias: &Tensor) -> Tensor {
    let &[_, _, queries, keys] = position_bias.shape.sizes() else {
        unreachable!("a bias has four sizes")
    };
    let [rows, columns] =
        [queries, keys].map(|n| tape.helper(Shape::new([n]), DType::I64, Prim::Arange));
    let earlier = tape.helper(Shape::new([1, 1, queries, keys]), DType::Bool, Prim::Mask);
    tape.release(rows);
    tape.release(columns);
    let mask = tape.where_or_number(&earlier, position_bias);
    tape.release(earlier);
    mask
}

/// T5's own `eager_attention_forward`.
fn eager(tape: &mut Tape, inputs: Biased<'_>) -> (Tensor, Tensor) {
    let Biased { query, key, value, position_bias, mask, dropout, .. } = inputs;
    let products = tape.bmm(query, key, true);
    let mut weights = tape.mul_scalar(&products);
    tape.release(products);
    for added in [Some(position_bias), mask].into_iter().flatten() {
        let sum = tape.add(&weights, added);
        tape.release(core::mem::replace(&mut weights, sum));
    }
    let probabilities = softmax(tape, &weights, false);
    tape.release(core::mem::replace(&mut weights, probabilities));
    let dropped = tape.dropout(&weights, dropout);
    tape.release(core::mem::replace(&mut weights, dropped));
    let output = tape.bmm(&weights, value, false);
    let tokens_first = tape.transpose(&output);
    tape.release(output);
    let merged = tape.merge_last(&tokens_first);
    tape.release(tokens_first);
    (merged, weights)
}
