//! How many parameters a model has.

use super::architecture::{Architecture, Gpt2, LlamaLike};

/// Parameters of the model, a tied weight counted once.
///
/// # Formula
///
/// ```text
/// GPT-2:  V·h + P·h + L·(2·2h + h·3h + 3h + h·h + h + 2·h·f + f + h) + 2h  [+ V·h untied]
/// Llama:  V·h + L·(2·h·q + 2·h·kv + 3·h·f + 2h + biases + norms) + h       [+ V·h untied]
/// ```
///
/// `V` vocabulary, `h` hidden size, `P` positions, `L` layers, `f` MLP width, `q` and `kv` heads
/// times head width.
///
/// # Source
///
/// The modules that transformers 5.17 builds; equal to every measured capture's count.
pub fn parameters(architecture: &Architecture) -> u64 {
    u64::try_from(parameters_wide(architecture)).unwrap_or(u64::MAX)
}

/// The same in 128 bits, for shapes that nobody checked yet.
pub(crate) fn parameters_wide(architecture: &Architecture) -> u128 {
    match architecture {
        Architecture::Gpt2(model) => gpt2(model),
        Architecture::Llama(model) => llama_like(model),
    }
}

fn gpt2(model: &Gpt2) -> u128 {
    let [h, f] = [model.hidden, model.intermediate].map(u128::from);
    let [layers, vocab, positions] = [model.layers, model.vocab, model.positions].map(u128::from);
    let norms = 2 * 2 * h;
    let attention = linear(h, 3 * h, true) + linear(h, h, true);
    let mlp = linear(h, f, true) + linear(f, h, true);
    let head = if model.tied { 0 } else { vocab * h };
    (vocab + positions) * h + layers * (norms + attention + mlp) + 2 * h + head
}

fn llama_like(model: &LlamaLike) -> u128 {
    let [h, f, d] = [model.hidden, model.intermediate, model.head_dim].map(u128::from);
    let [layers, vocab] = [model.layers, model.vocab].map(u128::from);
    let [q, kv] = [model.heads, model.kv_heads].map(|heads| u128::from(heads) * d);
    let attention = linear(h, q, model.qkv_bias)
        + 2 * linear(h, kv, model.qkv_bias)
        + linear(q, h, model.output_bias);
    let mlp = 2 * linear(h, f, model.mlp_bias) + linear(f, h, model.mlp_bias);
    let norms = 2 * h + if model.qk_norm { 2 * d } else { 0 };
    let head = if model.tied { 0 } else { vocab * h };
    vocab * h + layers * (norms + attention + mlp) + h + head
}

/// A linear layer's weight and bias.
const fn linear(inputs: u128, outputs: u128, bias: bool) -> u128 {
    inputs * outputs + if bias { outputs } else { 0 }
}
