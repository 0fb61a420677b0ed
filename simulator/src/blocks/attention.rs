//! The two attention functions of transformers: `sdpa_attention_forward` and `eager_attention_forward`.

use crate::primitives::SdpaInputs;
use crate::tape::{AttentionLibrary, Tape, Tensor};
use crate::tensor::DType;
use crate::wire::scenario::Attention;

use super::gemma::bounded;

/// What an attention function gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs<'a> {
    pub(super) query: &'a Tensor,
    pub(super) key: &'a Tensor,
    pub(super) value: &'a Tensor,
    /// Additive mask of eager attention, boolean mask of SDPA.
    pub(super) mask: Option<&'a Tensor>,
    /// Query heads per key and value head.
    pub(super) groups: u64,
    pub(super) dropout: f64,
    /// Whether SDPA is causal where it gets no mask.
    pub(super) causal: bool,
    pub(super) softmax: Softmax,
    /// Whether eager attention bounds its scores (`softcap`).
    pub(super) bounded: bool,
}

/// How eager attention writes its softmax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Softmax {
    /// `softmax(attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)`: llama, OPT, `ViT`.
    InF32,
    /// `softmax(attn_weights, dim=-1)`, named, then `.type(value.dtype)`: GPT-2.
    Named,
    /// `softmax(attn_weights, dim=-1)`: BERT.
    Plain,
}

/// Attention over `[batch, heads, tokens, head_dim]`, as `[batch, tokens, heads · head_dim]`, and the
/// weights that eager attention returns: the layer's `_` holds them until it ends.
pub(super) fn attend(
    tape: &mut Tape,
    attention: Attention,
    inputs: Inputs<'_>,
) -> (Tensor, Option<Tensor>) {
    // The functions hold the repeated heads until they have brought the tokens first.
    let groups = match attention {
        // With a mask the heads of a group are repeated first (`use_gqa_in_sdpa`).
        Attention::Sdpa if inputs.mask.is_none() => 1,
        Attention::FlashAttention2 | Attention::FlashAttention3 => 1,
        _ => inputs.groups,
    };
    let key = tape.repeat_kv(inputs.key, groups);
    let value = tape.repeat_kv(inputs.value, groups);
    let repeated = Inputs { key: &key, value: &value, ..inputs };
    let (output, weights) = match attention {
        Attention::Sdpa => (sdpa(tape, repeated), None),
        Attention::Eager => {
            let (output, weights) = eager(tape, repeated);
            (output, Some(weights))
        }
        Attention::FlashAttention2 => (flash(tape, repeated, AttentionLibrary::Flash2), None),
        Attention::FlashAttention3 => (flash(tape, repeated, AttentionLibrary::Flash3), None),
    };
    let tokens_first = tape.transpose(&output);
    tape.release(output);
    let merged = tape.merge_last(&tokens_first);
    tape.release(tokens_first);
    tape.release(key);
    tape.release(value);
    (merged, weights)
}

/// `sdpa_attention_forward`.
fn sdpa(tape: &mut Tape, inputs: Inputs<'_>) -> Tensor {
    let Inputs { query, key, value, mask, dropout, .. } = inputs;
    let causal = inputs.causal && mask.is_none();
    tape.sdpa(SdpaInputs { query, key, value, mask, causal, dropout })
}

/// `flash_attention_forward`. Windows and bounds of the scores are arguments of the kernel.
fn flash(tape: &mut Tape, inputs: Inputs<'_>, library: AttentionLibrary) -> Tensor {
    let Inputs { query, key, value, causal, dropout, .. } = inputs;
    let inputs = SdpaInputs { query, key, value, mask: None, causal, dropout };
    tape.flash_attention(inputs, library)
}

fn eager(tape: &mut Tape, inputs: Inputs<'_>) -> (Tensor, Tensor) {
    let products = tape.bmm(inputs.query, inputs.key, true);
    let mut weights = tape.mul_scalar(&products);
    tape.release(products);
    if inputs.bounded {
        weights = bounded(tape, weights, None);
    }
    if let Some(mask) = inputs.mask {
        let masked = tape.add(&weights, mask);
        tape.release(core::mem::replace(&mut weights, masked));
    }
    let probabilities = softmax(tape, &weights, inputs.softmax == Softmax::InF32);
    if inputs.softmax == Softmax::Named {
        // GPT-2 names the softmax's result before it is cast; llama casts in the same expression.
        let named = tape.share(&probabilities);
        tape.release(core::mem::replace(&mut weights, named));
    }
    let cast = match inputs.softmax {
        Softmax::InF32 => tape.cast(&probabilities, inputs.query.dtype),
        Softmax::Named => tape.cast(&probabilities, inputs.value.dtype),
        Softmax::Plain => tape.share(&probabilities),
    };
    tape.release(probabilities);
    tape.release(core::mem::replace(&mut weights, cast));
    let dropped = tape.dropout(&weights, inputs.dropout);
    tape.release(core::mem::replace(&mut weights, dropped));
    let output = tape.bmm(&weights, inputs.value, false);
    (output, weights)
}

/// Softmax in fp32 when asked for or under autocast, which asks for it then. A bf16 input is cast
/// first; an fp16 input is read by the kernel itself (`at::native::softmax`).
pub(super) fn softmax(tape: &mut Tape, x: &Tensor, in_f32: bool) -> Tensor {
    let widens = in_f32 || tape.autocast().is_some();
    if !widens || x.dtype == DType::F16 {
        let dtype = if widens { DType::F32 } else { x.dtype };
        return tape.softmax(x, dtype);
    }
    let wide = tape.cast(x, DType::F32);
    let out = tape.softmax(&wide, DType::F32);
    tape.release(wide);
    out
}
