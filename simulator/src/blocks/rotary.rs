//! Rotary position embedding: `LlamaRotaryEmbedding` and `apply_rotary_pos_emb`.

use crate::tape::{Block, Library, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};

/// Cosine and sine tables.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) cos: Tensor,
    pub(super) sin: Tensor,
}

/// The tables for `tokens` positions, computed in fp32 and cast to `dtype`; outside autograd.
pub(super) fn tables(tape: &mut Tape, tokens: u64, head_dim: u64, dtype: DType) -> Tables {
    tape.enter(Block::Rotary, "rotary_emb");
    let f32 = |tape: &mut Tape, a, b| tape.helper(Shape::new([1, a, b]), DType::F32, Prim::Copy);
    let positions = f32(tape, 1, tokens);
    let freqs = tape.helper(Shape::new([1, head_dim / 2, tokens]), DType::F32, Prim::Bmm);
    tape.workspace(Library::Blas);
    let emb = tape.helper(Shape::new([1, tokens, head_dim]), DType::F32, Prim::Cat);
    let mut scaled = || {
        let raw = tape.trigonometry(&emb);
        let scaled = tape.mul_scalar(&raw);
        tape.release(raw);
        scaled
    };
    let (cos, sin) = (scaled(), scaled());
    let tables = Tables { cos: tape.cast(&cos, dtype), sin: tape.cast(&sin, dtype) };
    for tensor in [positions, freqs, emb, cos, sin] {
        tape.release(tensor);
    }
    let seen_by_heads =
        |table: Tensor| Tensor { shape: Shape::new([1, 1, tokens, head_dim]), ..table };
    Tables { cos: seen_by_heads(tables.cos), sin: seen_by_heads(tables.sin) }
}

/// `(x * cos) + (rotate_half(x) * sin)`.
pub(super) fn rotate(tape: &mut Tape, x: &Tensor, cos: &Tensor, sin: &Tensor) -> Tensor {
    let straight = tape.mul(x, cos);
    let half = x.shape.last() / 2;
    let first = tape.slice_last(x, half);
    let second = tape.slice_last(x, half);
    let negated = tape.neg(&second);
    let turned = tape.cat_last(&negated, &first);
    tape.release(negated);
    tape.release(first);
    tape.release(second);
    let across = tape.mul(&turned, sin);
    tape.release(turned);
    let result = tape.add(&straight, &across);
    tape.release(straight);
    tape.release(across);
    result
}

/// `apply_rotary_pos_emb_interleave` of query and key: neighbours are rotated in pairs, without
/// bringing them apart first.
pub(super) fn rotate_pairs(
    tape: &mut Tape,
    inputs: [&Tensor; 2],
    tables: [&Tensor; 2],
) -> [Tensor; 2] {
    let half = tables[0].shape.last() / 2;
    let [cos, sin] = tables.map(|table| tape.slice_last(table, half));
    let pairs = inputs.map(|x| [(); 2].map(|()| tape.slice_last(x, half)));
    let rotated = pairs.each_ref().map(|[even, odd]| {
        let first = tape.mul(even, &cos);
        let second = tape.mul(odd, &sin);
        let difference = tape.sub(&first, &second);
        tape.release(first);
        tape.release(second);
        let first = tape.mul(odd, &cos);
        let second = tape.mul(even, &sin);
        let sum = tape.add(&first, &second);
        tape.release(first);
        tape.release(second);
        let out = tape.cat_last(&difference, &sum);
        tape.release(sum);
        tape.release(difference);
        out
    });
    for tensor in [cos, sin].into_iter().chain(pairs.into_iter().flatten()) {
        tape.release(tensor);
    }
    rotated
}
