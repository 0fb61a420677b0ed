//! Attention masks: `create_causal_mask` and its sliding-window form in transformers'
//! `masking_utils.py`.

use crate::primitives::scan_scratch;
use crate::scenario::SlidingWindow;
use crate::tape::{Block, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::scenario::Attention;

/// Masks of one forward pass.
///
/// SDPA gets none where causality is a flag of the kernel (`_ignore_causal_mask_sdpa`): everywhere but
/// in layers whose window is shorter than the sequence.
#[derive(Debug)]
pub(super) struct Masks {
    /// For layers that see the whole sequence.
    pub(super) full: Option<Tensor>,
    /// For layers with a window.
    pub(super) window: Option<Tensor>,
}

impl Masks {
    /// The mask of a layer.
    pub(super) fn of_layer(&self, window: Option<&SlidingWindow>, layer: u32) -> Option<&Tensor> {
        match window {
            Some(window) if window.applies_to(u64::from(layer)) => self.window.as_ref(),
            _ => self.full.as_ref(),
        }
    }

    pub(super) fn release(self, tape: &mut Tape) {
        for mask in [self.full, self.window].into_iter().flatten() {
            tape.release(mask);
        }
    }
}

/// Looks for packed sequences and makes the masks that the attention function needs.
pub(super) fn causal(
    tape: &mut Tape,
    [batch, tokens]: [u64; 2],
    dtype: DType,
    attention: Attention,
    window: Option<&SlidingWindow>,
) -> Masks {
    tape.enter(Block::Mask, "causal_mask");
    let needs_full = window.is_none_or(|window| window.beside_full);
    let mut masks = Masks { full: None, window: None };
    if needs_full {
        masks.full = mask(tape, [batch, tokens], dtype, attention, None);
    }
    if let Some(window) = window {
        masks.window = mask(tape, [batch, tokens], dtype, attention, Some(window.tokens));
    }
    masks
}

/// The mask of a class that makes a padding mask itself, all ones: it is read as booleans, and SDPA
/// goes without one after they were counted (`fast_all`).
pub(super) fn causal_of_padding(
    tape: &mut Tape,
    [batch, tokens]: [u64; 2],
    dtype: DType,
    attention: Attention,
) -> Option<Tensor> {
    tape.enter(Block::Mask, "causal_mask");
    let padding = tape.helper(Shape::new([batch, tokens]), DType::Bool, Prim::Mask);
    let mask = match attention {
        Attention::Sdpa if tape.traced() => Some(boolean_of_padding(tape, [batch, tokens])),
        Attention::Sdpa => {
            let sum = tape.helper(Shape::scalar(), DType::I64, Prim::Mask);
            tape.scratch(batch * tokens * 8, Prim::Mask);
            let all = tape.helper(Shape::scalar(), DType::Bool, Prim::Mask);
            tape.release(sum);
            tape.release(all);
            None
        }
        Attention::FlashAttention2 | Attention::FlashAttention3 => {
            let all = tape.helper(Shape::scalar(), DType::Bool, Prim::Mask);
            tape.release(all);
            None
        }
        Attention::Eager => {
            let allowed = boolean_of_padding(tape, [batch, tokens]);
            Some(additive(tape, [batch, tokens], dtype, allowed))
        }
    };
    tape.release(padding);
    mask
}

/// `sdpa_mask` with a padding mask: causality and padding, combined with an initial `true`.
fn boolean_of_padding(tape: &mut Tape, [batch, tokens]: [u64; 2]) -> Tensor {
    let integers =
        |tape: &mut Tape, count| tape.helper(Shape::new([count]), DType::I64, Prim::Arange);
    let booleans = |tape: &mut Tape, shape| tape.helper(Shape::new(shape), DType::Bool, Prim::Mask);
    let batches = integers(tape, batch);
    let heads = integers(tape, 1);
    let mut positions = || {
        let from_zero = integers(tape, tokens);
        let shifted = integers(tape, tokens);
        tape.release(from_zero);
        shifted
    };
    let (queries, keys) = (positions(), positions());
    let always = tape.helper(Shape::scalar(), DType::Bool, Prim::Mask);
    let causal = booleans(tape, [1, 1, tokens, tokens]);
    let result = booleans(tape, [1, 1, tokens, tokens]);
    tape.release(causal);
    tape.release(always);
    let padding = booleans(tape, [batch, 1, 1, tokens]);
    let both = booleans(tape, [batch, 1, tokens, tokens]);
    for tensor in [padding, result, batches, heads, queries, keys] {
        tape.release(tensor);
    }
    both
}

/// The mask of a class that says nothing of positions, so that no packed sequences are looked for.
pub(super) fn causal_of_embeddings(
    tape: &mut Tape,
    sizes: [u64; 2],
    dtype: DType,
    attention: Attention,
) -> Option<Tensor> {
    tape.enter(Block::Mask, "causal_mask");
    if attention != Attention::Eager && !tape.traced() {
        return None;
    }
    let allowed = boolean(tape, sizes, false);
    Some(match attention {
        Attention::Eager => additive(tape, sizes, dtype, allowed),
        _ => allowed,
    })
}

/// The mask of a class that says nothing of positions and asks for a mask even where causality could
/// be a flag (`allow_is_causal_skip=False`).
pub(super) fn causal_always(
    tape: &mut Tape,
    sizes: [u64; 2],
    dtype: DType,
    attention: Attention,
) -> Tensor {
    tape.enter(Block::Mask, "causal_mask");
    let allowed = boolean(tape, sizes, false);
    match attention {
        Attention::Eager => additive(tape, sizes, dtype, allowed),
        _ => allowed,
    }
}

fn mask(
    tape: &mut Tape,
    sizes: [u64; 2],
    dtype: DType,
    attention: Attention,
    window: Option<u64>,
) -> Option<Tensor> {
    for tensor in packed_sequences(tape, sizes) {
        tape.release(tensor);
    }
    match attention {
        // `local_attention_size is not None and kv_length >= local_attention_size`.
        Attention::Sdpa => {
            let window = window.filter(|&window| window <= sizes[1]);
            let wanted = window.is_some() || tape.traced();
            wanted.then(|| boolean(tape, sizes, window.is_some()))
        }
        // `flash_attention_mask`: windows are the kernel's.
        Attention::FlashAttention2 | Attention::FlashAttention3 => None,
        Attention::Eager => {
            let allowed = boolean(tape, sizes, window.is_some());
            Some(additive(tape, sizes, dtype, allowed))
        }
    }
}

/// `find_packed_sequence_indices`: differences of the positions, their running count, and whether
/// the last is zero. The count over one sequence alone is a scan by CUB (`scan_dim`,
/// `aten/src/ATen/native/cuda/ScanUtils.cuh`).
fn packed_sequences(tape: &mut Tape, [batch, tokens]: [u64; 2]) -> [Tensor; 3] {
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
    if batch == 1 {
        tape.scratch(scan_scratch(tokens), Prim::Mask);
    }
    tape.release(converted);
    tape.release(changes);
    let last = tape.helper(Shape::new([batch]), DType::Bool, Prim::Mask);
    let all = tape.helper(Shape::scalar(), DType::Bool, Prim::Mask);
    tape.release(last);
    tape.release(all);
    [first, difference, indices]
}

/// `sdpa_mask`: index vectors and the boolean mask `[1, 1, tokens, tokens]` that is expanded over the
/// batch; with a window two conditions are combined with an initial `true`.
fn boolean(tape: &mut Tape, [batch, tokens]: [u64; 2], windowed: bool) -> Tensor {
    let integers =
        |tape: &mut Tape, count| tape.helper(Shape::new([count]), DType::I64, Prim::Arange);
    let square =
        |tape: &mut Tape| tape.helper(Shape::new([1, 1, tokens, tokens]), DType::Bool, Prim::Mask);
    let batches = integers(tape, batch);
    let heads = integers(tape, 1);
    let mut positions = || {
        let from_zero = integers(tape, tokens);
        let shifted = integers(tape, tokens);
        tape.release(from_zero);
        shifted
    };
    let (queries, keys) = (positions(), positions());
    let allowed = if windowed {
        let always = tape.helper(Shape::scalar(), DType::Bool, Prim::Mask);
        let shifted = integers(tape, tokens);
        let near = square(tape);
        tape.release(shifted);
        let within = square(tape);
        tape.release(near);
        tape.release(always);
        let causal = square(tape);
        let both = square(tape);
        tape.release(causal);
        tape.release(within);
        both
    } else {
        square(tape)
    };
    for tensor in [batches, heads, queries, keys] {
        tape.release(tensor);
    }
    let expanded = tape.expand(&allowed, Shape::new([batch, 1, tokens, tokens]));
    tape.release(allowed);
    expanded
}

/// `eager_mask`: zero or the dtype's minimum by `where`.
fn additive(tape: &mut Tape, [batch, tokens]: [u64; 2], dtype: DType, allowed: Tensor) -> Tensor {
    let zero = tape.helper(Shape::scalar(), dtype, Prim::Mask);
    let minimum = tape.helper(Shape::scalar(), dtype, Prim::Mask);
    let mask = tape.helper(Shape::new([batch, 1, tokens, tokens]), dtype, Prim::Mask);
    tape.release(minimum);
    tape.release(zero);
    tape.release(allowed);
    mask
}
