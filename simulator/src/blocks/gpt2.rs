//! `GPT2LMHeadModel`.
//!
//! Source: transformers 5.17, `models/gpt2/modeling_gpt2.py`, `pytorch_utils.py` (`Conv1D`).

use crate::engine::Recompute;
use crate::scenario::Gpt2;
use crate::tape::{Block, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::affine::Affine;
use super::attention::{Inputs, Softmax, attend};
use super::llama::activate;
use super::plain::per_head;
use super::{Network, Style, mask, parameter};

/// The model's parameters and what its forward pass keeps.
#[derive(Debug)]
pub(super) struct Gpt2Model {
    config: Gpt2,
    style: Style,
    wte: ParamId,
    wpe: ParamId,
    layers: Vec<Layer>,
    ln_f: Affine,
    pub(super) lm_head: ParamId,
}

#[derive(Debug)]
struct Layer {
    ln_1: Affine,
    c_attn: Affine,
    attn_proj: Affine,
    ln_2: Affine,
    c_fc: Affine,
    mlp_proj: Affine,
}

impl Network for Gpt2Model {
    fn forward(&self, tape: &mut Tape, ids: &Tensor) -> Tensor {
        let &[batch, tokens] = ids.shape.sizes() else { unreachable!("ids are [batch, tokens]") };
        tape.enter(Block::Embedding, "wte");
        let inputs_embeds = tape.embedding(ids, self.wte, false);
        let from_zero = tape.helper(Shape::new([1, tokens]), DType::I64, Prim::Arange);
        let position_ids = tape.helper(Shape::new([1, tokens]), DType::I64, Prim::Add);
        tape.release(from_zero);
        tape.enter(Block::Embedding, "wpe");
        let position_embeds = tape.embedding(&position_ids, self.wpe, false);
        let mut hidden_states = tape.add(&inputs_embeds, &position_embeds);
        let dtype = inputs_embeds.dtype;
        let masks = mask::causal(tape, [batch, tokens], dtype, self.style.attention, None);
        let mask = masks.full;
        tape.enter(Block::Embedding, "drop");
        let dropped = tape.dropout(&hidden_states, self.config.embedding_dropout);
        tape.release(core::mem::replace(&mut hidden_states, dropped));

        for index in (0_u32..).take(self.layers.len()) {
            let layer = |tape: &mut Tape| self.layer(tape, index, &hidden_states, mask.as_ref());
            let output = self.style.run_layer(tape, (index, &hidden_states), &mask, layer);
            tape.release(core::mem::replace(&mut hidden_states, output));
        }
        tape.enter(Block::FinalNorm, "ln_f");
        let normed = tape.layer_norm(&hidden_states, self.ln_f.weight, self.ln_f.bias);
        tape.release(hidden_states);
        let locals = [Some(position_ids), Some(inputs_embeds), Some(position_embeds), mask];
        for tensor in locals.into_iter().flatten() {
            tape.release(tensor);
        }
        normed
    }

    fn lm_head(&self) -> ParamId {
        self.lm_head
    }
}

impl Recompute for Gpt2Model {
    fn recompute(&self, tape: &mut Tape, layer: u32, input: &Tensor, arguments: &[Tensor]) {
        let output = self.layer(tape, layer, input, arguments.first());
        tape.release(output);
    }
}

impl Gpt2Model {
    pub(super) fn register(tape: &mut Tape, config: &Gpt2, dtype: DType, style: Style) -> Self {
        let hidden = config.hidden;
        let table = |tape: &mut Tape, name: &str, rows: u64| {
            parameter(tape, format!("transformer.{name}.weight"), [rows, hidden], dtype)
        };
        let wte = table(tape, "wte", config.vocab);
        let wpe = table(tape, "wpe", config.positions);
        let layers = (0..config.layers).map(|i| Layer::register(tape, config, dtype, i)).collect();
        let ln_f = Affine::norm(tape, "transformer.ln_f", hidden, dtype);
        let lm_head = if config.tied {
            wte
        } else {
            parameter(tape, "lm_head.weight".to_owned(), [config.vocab, hidden], dtype)
        };
        Self { config: config.clone(), style, wte, wpe, layers, ln_f, lm_head }
    }

    pub(super) fn layer(
        &self,
        tape: &mut Tape,
        index: u32,
        hidden_states: &Tensor,
        mask: Option<&Tensor>,
    ) -> Tensor {
        let layer = &self.layers[index as usize];
        tape.enter_layer(Some(index));
        let residual = tape.share(hidden_states);
        tape.enter(Block::InputNorm, "ln_1");
        let normed = tape.layer_norm(hidden_states, layer.ln_1.weight, layer.ln_1.bias);
        let (attn_output, weights) = self.attention(tape, layer, &normed, mask);
        tape.enter(Block::Residual, "residual");
        let hidden_states = tape.add(&attn_output, &residual);
        tape.release(normed);
        tape.release(residual);

        let residual = tape.share(&hidden_states);
        tape.enter(Block::PostNorm, "ln_2");
        let normed = tape.layer_norm(&hidden_states, layer.ln_2.weight, layer.ln_2.bias);
        tape.release(hidden_states);
        let feed_forward = self.mlp(tape, layer, &normed);
        tape.enter(Block::Residual, "residual");
        let output = tape.add(&residual, &feed_forward);
        let locals = [Some(normed), Some(residual), Some(attn_output), weights, Some(feed_forward)];
        for tensor in locals.into_iter().flatten() {
            tape.release(tensor);
        }
        tape.enter_layer(None);
        output
    }

    fn attention(
        &self,
        tape: &mut Tape,
        layer: &Layer,
        hidden_states: &Tensor,
        mask: Option<&Tensor>,
    ) -> (Tensor, Option<Tensor>) {
        tape.enter(Block::Attention, "c_attn");
        let qkv = tape.conv1d(hidden_states, layer.c_attn.weight, layer.c_attn.bias);
        let [query, key, value] = tape.split3(&qkv);
        tape.release(qkv);
        // In the order of the source, which is that of backward, too.
        let [key, value, query] = [key, value, query]
            .map(|part| per_head(tape, part, self.config.hidden / self.config.heads));
        tape.enter(Block::Attention, "attn_output");
        let inputs = Inputs {
            query: &query,
            key: &key,
            value: &value,
            mask,
            groups: 1,
            dropout: self.config.attention_dropout,
            causal: true,
            softmax: Softmax::Named,
            bounded: false,
        };
        let (mut attn_output, weights) = attend(tape, self.style.attention, inputs);
        tape.enter(Block::Attention, "c_proj");
        let projected = tape.conv1d(&attn_output, layer.attn_proj.weight, layer.attn_proj.bias);
        tape.release(core::mem::replace(&mut attn_output, projected));
        tape.enter(Block::Attention, "resid_dropout");
        let dropped = tape.dropout(&attn_output, self.config.residual_dropout);
        tape.release(core::mem::replace(&mut attn_output, dropped));
        for tensor in [query, key, value] {
            tape.release(tensor);
        }
        (attn_output, weights)
    }

    fn mlp(&self, tape: &mut Tape, layer: &Layer, x: &Tensor) -> Tensor {
        tape.enter(Block::Mlp, "c_fc");
        let mut hidden_states = tape.conv1d(x, layer.c_fc.weight, layer.c_fc.bias);
        tape.enter(Block::Mlp, "act");
        let activated = activate(tape, &hidden_states, self.config.activation);
        tape.release(core::mem::replace(&mut hidden_states, activated));
        tape.enter(Block::Mlp, "c_proj");
        let projected = tape.conv1d(&hidden_states, layer.mlp_proj.weight, layer.mlp_proj.bias);
        tape.release(core::mem::replace(&mut hidden_states, projected));
        tape.enter(Block::Mlp, "dropout");
        let dropped = tape.dropout(&hidden_states, self.config.residual_dropout);
        tape.release(core::mem::replace(&mut hidden_states, dropped));
        hidden_states
    }
}

impl Layer {
    fn register(tape: &mut Tape, config: &Gpt2, dtype: DType, index: u64) -> Self {
        let Gpt2 { hidden, intermediate, .. } = *config;
        let at = |module: &str| format!("transformer.h.{index}.{module}");
        let ln_1 = Affine::norm(tape, &at("ln_1"), hidden, dtype);
        let c_attn = conv1d(tape, &at("attn.c_attn"), [hidden, 3 * hidden], dtype);
        let attn_proj = conv1d(tape, &at("attn.c_proj"), [hidden, hidden], dtype);
        let ln_2 = Affine::norm(tape, &at("ln_2"), hidden, dtype);
        let c_fc = conv1d(tape, &at("mlp.c_fc"), [hidden, intermediate], dtype);
        let mlp_proj = conv1d(tape, &at("mlp.c_proj"), [intermediate, hidden], dtype);
        Self { ln_1, c_attn, attn_proj, ln_2, c_fc, mlp_proj }
    }
}

fn conv1d(tape: &mut Tape, name: &str, sizes: [u64; 2], dtype: DType) -> Affine {
    let weight = parameter(tape, format!("{name}.weight"), sizes, dtype);
    let bias = parameter(tape, format!("{name}.bias"), [sizes[1]], dtype);
    Affine { weight, bias }
}
