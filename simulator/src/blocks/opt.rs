//! `OPTForCausalLM`.
//!
//! Source: transformers 5.17, `models/opt/modeling_opt.py`.

use crate::engine::Recompute;
use crate::primitives::scan_scratch;
use crate::scenario::{Opt, POSITION_OFFSET};
use crate::tape::{Block, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::affine::Affine;
use super::attention::{Inputs, Softmax, attend};
use super::llama::activate;
use super::plain::per_head;
use super::{Network, Style, mask, parameter};

/// The model's parameters.
#[derive(Debug)]
pub(super) struct OptModel {
    config: Opt,
    style: Style,
    embed_tokens: ParamId,
    embed_positions: ParamId,
    /// `project_out`, `project_in`.
    projections: Option<[ParamId; 2]>,
    final_norm: Option<Affine>,
    layers: Vec<Layer>,
    lm_head: ParamId,
}

#[derive(Debug)]
struct Layer {
    k_proj: Affine,
    v_proj: Affine,
    q_proj: Affine,
    out_proj: Affine,
    attention_norm: Affine,
    fc1: Affine,
    fc2: Affine,
    final_norm: Affine,
}

impl Network for OptModel {
    fn forward(&self, tape: &mut Tape, ids: &Tensor) -> Tensor {
        let &[batch, tokens] = ids.shape.sizes() else { unreachable!("ids are [batch, tokens]") };
        tape.enter(Block::Embedding, "embed_tokens");
        let mut inputs_embeds = tape.embedding(ids, self.embed_tokens, true);
        tape.enter(Block::Embedding, "position_ids");
        let attention_mask = tape.helper(ids.shape, DType::F32, Prim::Mask);
        let position_ids = position_ids(tape, ids.shape);
        let dtype = inputs_embeds.dtype;
        let mask = mask::causal_of_padding(tape, [batch, tokens], dtype, self.style.attention);
        tape.enter(Block::Embedding, "embed_positions");
        let shifted = tape.helper(ids.shape, DType::I64, Prim::Add);
        let pos_embeds = tape.embedding(&shifted, self.embed_positions, false);
        tape.release(shifted);
        if let Some([_, project_in]) = self.projections {
            tape.enter(Block::Embedding, "project_in");
            let projected = tape.linear(&inputs_embeds, project_in, None);
            tape.release(core::mem::replace(&mut inputs_embeds, projected));
        }
        tape.enter(Block::Embedding, "hidden_states");
        let mut hidden_states = tape.add(&inputs_embeds, &pos_embeds);
        for index in (0_u32..).take(self.layers.len()) {
            let layer = |tape: &mut Tape| self.layer(tape, index, &hidden_states, mask.as_ref());
            let output = self.style.run_layer(tape, (index, &hidden_states), &mask, layer);
            tape.release(core::mem::replace(&mut hidden_states, output));
        }
        if let Some(norm) = self.final_norm {
            tape.enter(Block::FinalNorm, "final_layer_norm");
            let normed = norm.normed(tape, &hidden_states);
            tape.release(core::mem::replace(&mut hidden_states, normed));
        }
        if let Some([project_out, _]) = self.projections {
            tape.enter(Block::FinalNorm, "project_out");
            let projected = tape.linear(&hidden_states, project_out, None);
            tape.release(core::mem::replace(&mut hidden_states, projected));
        }
        let locals = [attention_mask, inputs_embeds, position_ids];
        for tensor in locals.into_iter().chain(mask).chain([pos_embeds]) {
            tape.release(tensor);
        }
        hidden_states
    }

    fn lm_head(&self) -> ParamId {
        self.lm_head
    }
}

impl Recompute for OptModel {
    fn recompute(&self, tape: &mut Tape, layer: u32, input: &Tensor, arguments: &[Tensor]) {
        let output = self.layer(tape, layer, input, arguments.first());
        tape.release(output);
    }
}

/// `(torch.cumsum(attention_mask, dim=1) * attention_mask - 1).long()` of a mask of fp32 ones. The
/// running count of one sequence alone is a scan by CUB.
fn position_ids(tape: &mut Tape, shape: Shape) -> Tensor {
    let &[batch, tokens] = shape.sizes() else { unreachable!("masks are [batch, tokens]") };
    let count = tape.helper(shape, DType::F32, Prim::Sum);
    if batch == 1 {
        tape.scratch(scan_scratch(tokens), Prim::Sum);
    }
    let product = tape.helper(shape, DType::F32, Prim::Mul);
    let shifted = tape.helper(shape, DType::F32, Prim::Add);
    tape.release(product);
    let position_ids = tape.helper(shape, DType::I64, Prim::Copy);
    tape.release(shifted);
    tape.release(count);
    position_ids
}

impl OptModel {
    pub(super) fn register(tape: &mut Tape, config: &Opt, dtype: DType, style: Style) -> Self {
        let at = |name: &str| format!("model.decoder.{name}");
        let Opt { hidden, word_embed, vocab, .. } = *config;
        let embed_tokens = parameter(tape, at("embed_tokens.weight"), [vocab, word_embed], dtype);
        let rows = config.positions + POSITION_OFFSET;
        let embed_positions = parameter(tape, at("embed_positions.weight"), [rows, hidden], dtype);
        let projections = config.projects().then(|| {
            let out = parameter(tape, at("project_out.weight"), [word_embed, hidden], dtype);
            [out, parameter(tape, at("project_in.weight"), [hidden, word_embed], dtype)]
        });
        let final_norm =
            config.final_norm.then(|| Affine::norm(tape, &at("final_layer_norm"), hidden, dtype));
        let layers = (0..config.layers).map(|i| Layer::register(tape, config, dtype, i)).collect();
        let lm_head = if config.tied {
            embed_tokens
        } else {
            parameter(tape, "lm_head.weight".to_owned(), [vocab, word_embed], dtype)
        };
        let config = config.clone();
        Self {
            config,
            style,
            embed_tokens,
            embed_positions,
            projections,
            final_norm,
            layers,
            lm_head,
        }
    }

    fn layer(&self, tape: &mut Tape, index: u32, input: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let layer = &self.layers[index as usize];
        tape.enter_layer(Some(index));
        let residual = tape.share(input);
        let mut hidden_states = tape.share(input);
        self.norm(tape, layer.attention_norm, &mut hidden_states, true);
        let (attn_output, weights) = self.attention(tape, layer, &hidden_states, mask);
        tape.release(core::mem::replace(&mut hidden_states, attn_output));
        self.add_dropped(tape, &mut hidden_states, &residual);
        self.norm(tape, layer.attention_norm, &mut hidden_states, false);

        let shape = hidden_states.shape;
        let rows = Shape::new([shape.rows(), shape.last()]);
        let flat = tape.seen_as(&hidden_states, rows);
        tape.release(core::mem::replace(&mut hidden_states, flat));
        tape.release(residual);
        let residual = tape.share(&hidden_states);
        self.norm(tape, layer.final_norm, &mut hidden_states, true);
        self.mlp(tape, layer, &mut hidden_states);
        self.add_dropped(tape, &mut hidden_states, &residual);
        let output = tape.seen_as(&hidden_states, shape);
        tape.release(core::mem::replace(&mut hidden_states, output));
        self.norm(tape, layer.final_norm, &mut hidden_states, false);
        for tensor in [Some(residual), weights].into_iter().flatten() {
            tape.release(tensor);
        }
        tape.enter_layer(None);
        hidden_states
    }

    /// The norm, where this model has it here.
    fn norm(&self, tape: &mut Tape, norm: Affine, hidden_states: &mut Tensor, before: bool) {
        if self.config.norm_before != before {
            return;
        }
        let (block, module) = match hidden_states.shape.sizes().len() {
            3 if before => (Block::InputNorm, "self_attn_layer_norm"),
            _ => (Block::PostNorm, "layer_norm"),
        };
        tape.enter(block, module);
        let normed = norm.normed(tape, hidden_states);
        tape.release(core::mem::replace(hidden_states, normed));
    }

    /// `residual + dropout(hidden_states)`.
    fn add_dropped(&self, tape: &mut Tape, hidden_states: &mut Tensor, residual: &Tensor) {
        tape.enter(Block::Residual, "dropout");
        let dropped = tape.dropout(hidden_states, self.config.dropout);
        tape.release(core::mem::replace(hidden_states, dropped));
        tape.enter(Block::Residual, "residual");
        let sum = tape.add(residual, hidden_states);
        tape.release(core::mem::replace(hidden_states, sum));
    }

    fn attention(
        &self,
        tape: &mut Tape,
        layer: &Layer,
        hidden_states: &Tensor,
        mask: Option<&Tensor>,
    ) -> (Tensor, Option<Tensor>) {
        let head_dim = self.config.hidden / self.config.heads;
        tape.enter(Block::Attention, "q_proj");
        let projected = layer.q_proj.apply(tape, hidden_states);
        let scaled = tape.mul_scalar(&projected);
        tape.release(projected);
        let query = per_head(tape, scaled, head_dim);
        tape.enter(Block::Attention, "k_proj");
        let key = layer.k_proj.apply(tape, hidden_states);
        tape.enter(Block::Attention, "v_proj");
        let value = layer.v_proj.apply(tape, hidden_states);
        let [key, value] = [key, value].map(|projected| per_head(tape, projected, head_dim));
        tape.enter(Block::Attention, "attn_output");
        let inputs = Inputs {
            query: &query,
            key: &key,
            value: &value,
            mask,
            groups: 1,
            dropout: self.config.attention_dropout,
            causal: true,
            softmax: Softmax::InF32,
            bounded: false,
        };
        let (mut attn_output, weights) = attend(tape, self.style.attention, inputs);
        tape.enter(Block::Attention, "out_proj");
        let projected = layer.out_proj.apply(tape, &attn_output);
        tape.release(core::mem::replace(&mut attn_output, projected));
        for tensor in [query, key, value] {
            tape.release(tensor);
        }
        (attn_output, weights)
    }

    fn mlp(&self, tape: &mut Tape, layer: &Layer, hidden_states: &mut Tensor) {
        tape.enter(Block::Mlp, "fc1");
        let widened = layer.fc1.apply(tape, hidden_states);
        tape.release(core::mem::replace(hidden_states, widened));
        tape.enter(Block::Mlp, "activation_fn");
        let activated = activate(tape, hidden_states, self.config.activation);
        tape.release(core::mem::replace(hidden_states, activated));
        tape.enter(Block::Mlp, "fc2");
        let narrowed = layer.fc2.apply(tape, hidden_states);
        tape.release(core::mem::replace(hidden_states, narrowed));
    }
}

impl Layer {
    fn register(tape: &mut Tape, config: &Opt, dtype: DType, index: u64) -> Self {
        let Opt { hidden, intermediate, .. } = *config;
        let at = |module: &str| format!("model.decoder.layers.{index}.{module}");
        let linear =
            |tape: &mut Tape, module: &str, sizes| Affine::linear(tape, &at(module), sizes, dtype);
        Self {
            k_proj: linear(tape, "self_attn.k_proj", [hidden, hidden]),
            v_proj: linear(tape, "self_attn.v_proj", [hidden, hidden]),
            q_proj: linear(tape, "self_attn.q_proj", [hidden, hidden]),
            out_proj: linear(tape, "self_attn.out_proj", [hidden, hidden]),
            attention_norm: Affine::norm(tape, &at("self_attn_layer_norm"), hidden, dtype),
            fc1: linear(tape, "fc1", [hidden, intermediate]),
            fc2: linear(tape, "fc2", [intermediate, hidden]),
            final_norm: Affine::norm(tape, &at("final_layer_norm"), hidden, dtype),
        }
    }
}
