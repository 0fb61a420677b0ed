//! `ViTForImageClassification`.
//!
//! Source: transformers 5.17, `models/vit/modeling_vit.py`. Attention gets no mask
//! (`_ignore_bidirectional_mask_sdpa`).

use crate::engine::Recompute;
use crate::scenario::{CHANNELS, Vit};
use crate::tape::{Block, ParamId, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::affine::Affine;
use super::attention::{Inputs, Softmax, attend};
use super::plain::{self, projected_heads};
use super::{Network, Style, parameter};

/// The model's parameters.
#[derive(Debug)]
pub(super) struct VitModel {
    config: Vit,
    style: Style,
    cls_token: ParamId,
    position_embeddings: ParamId,
    projection: Affine,
    layers: Vec<Layer>,
    layernorm: Affine,
    classifier: Affine,
}

#[derive(Debug)]
struct Layer {
    q_proj: Affine,
    k_proj: Affine,
    v_proj: Affine,
    o_proj: Affine,
    norm_before: Affine,
    norm_after: Affine,
    fc1: Affine,
    fc2: Affine,
}

impl Network for VitModel {
    fn forward(&self, tape: &mut Tape, pixel_values: &Tensor) -> Tensor {
        let embedding_output = self.embed(tape, pixel_values);
        let mut hidden_states = tape.share(&embedding_output);
        for index in (0_u32..).take(self.layers.len()) {
            let layer = |tape: &mut Tape| self.layer(tape, index, &hidden_states);
            let output = self.style.run_layer(tape, (index, &hidden_states), [], layer);
            tape.release(core::mem::replace(&mut hidden_states, output));
        }
        tape.enter(Block::FinalNorm, "layernorm");
        let sequence_output = self.layernorm.normed(tape, &hidden_states);
        tape.release(embedding_output);
        tape.release(hidden_states);
        sequence_output
    }

    fn head(&self, tape: &mut Tape, sequence_output: &Tensor) -> Tensor {
        tape.enter(Block::LmHead, "classifier");
        let pooled_output = tape.first_token(sequence_output);
        let logits = self.classifier.apply(tape, &pooled_output);
        tape.release(pooled_output);
        logits
    }

    fn lm_head(&self) -> ParamId {
        self.classifier.weight
    }
}

impl Recompute for VitModel {
    fn recompute(&self, tape: &mut Tape, layer: u32, input: &Tensor, _arguments: &[Tensor]) {
        let output = self.layer(tape, layer, input);
        tape.release(output);
    }
}

impl VitModel {
    pub(super) fn register(tape: &mut Tape, config: &Vit, dtype: DType, style: Style) -> Self {
        let Vit { hidden, patch, .. } = *config;
        let own = |tape: &mut Tape, name: &str, rows| {
            parameter(tape, format!("vit.embeddings.{name}"), [1, rows, hidden], dtype)
        };
        let cls_token = own(tape, "cls_token", 1);
        let position_embeddings = own(tape, "position_embeddings", config.patches() + 1);
        let at = "vit.embeddings.patch_embeddings.projection";
        let sizes = [hidden, CHANNELS, patch, patch];
        let weight = parameter(tape, format!("{at}.weight"), sizes, dtype);
        let bias = parameter(tape, format!("{at}.bias"), [hidden], dtype);
        let layers = (0..config.layers).map(|i| Layer::register(tape, config, dtype, i)).collect();
        let layernorm = Affine::norm(tape, "vit.layernorm", hidden, dtype);
        let classifier = Affine::linear(tape, "classifier", [hidden, config.labels], dtype);
        Self {
            config: config.clone(),
            style,
            cls_token,
            position_embeddings,
            projection: Affine { weight, bias },
            layers,
            layernorm,
            classifier,
        }
    }

    fn embed(&self, tape: &mut Tape, pixel_values: &Tensor) -> Tensor {
        let images = pixel_values.shape.sizes()[0];
        tape.enter(Block::Embedding, "patch_embeddings");
        let Affine { weight, bias } = self.projection;
        let mut embeddings = tape.patches(pixel_values, weight, bias);
        tape.enter(Block::Embedding, "cls_token");
        let cls_token = tape.weight(self.cls_token);
        let shape = Shape::new([images, 1, self.config.hidden]);
        let cls_tokens = tape.repeated(&cls_token, shape);
        tape.release(cls_token);
        let joined = tape.cat_tokens(&cls_tokens, &embeddings);
        tape.release(core::mem::replace(&mut embeddings, joined));
        tape.enter(Block::Embedding, "position_embeddings");
        let positions = tape.weight(self.position_embeddings);
        let sum = tape.add(&embeddings, &positions);
        tape.release(positions);
        tape.release(core::mem::replace(&mut embeddings, sum));
        tape.enter(Block::Embedding, "dropout");
        let dropped = tape.dropout(&embeddings, self.config.hidden_dropout);
        tape.release(core::mem::replace(&mut embeddings, dropped));
        tape.release(cls_tokens);
        embeddings
    }

    fn layer(&self, tape: &mut Tape, index: u32, input: &Tensor) -> Tensor {
        let layer = &self.layers[index as usize];
        tape.enter_layer(Some(index));
        let residual = tape.share(input);
        tape.enter(Block::InputNorm, "layernorm_before");
        let mut hidden_states = layer.norm_before.normed(tape, input);
        let (attn_output, weights) = self.attention(tape, layer, &hidden_states);
        tape.release(core::mem::replace(&mut hidden_states, attn_output));
        self.add_dropped(tape, &mut hidden_states, &residual);

        tape.release(residual);
        let residual = tape.share(&hidden_states);
        tape.enter(Block::PostNorm, "layernorm_after");
        let normed = layer.norm_after.normed(tape, &hidden_states);
        tape.release(core::mem::replace(&mut hidden_states, normed));
        let linears = [layer.fc1, layer.fc2];
        let activation = self.config.activation;
        let projected =
            plain::mlp(tape, &hidden_states, linears, activation, ["fc1", "activation_fn", "fc2"]);
        tape.release(core::mem::replace(&mut hidden_states, projected));
        self.add_dropped(tape, &mut hidden_states, &residual);
        for tensor in [Some(residual), weights].into_iter().flatten() {
            tape.release(tensor);
        }
        tape.enter_layer(None);
        hidden_states
    }

    /// `dropout(hidden_states) + residual`.
    fn add_dropped(&self, tape: &mut Tape, hidden_states: &mut Tensor, residual: &Tensor) {
        tape.enter(Block::Residual, "dropout");
        let dropped = tape.dropout(hidden_states, self.config.hidden_dropout);
        tape.release(core::mem::replace(hidden_states, dropped));
        tape.enter(Block::Residual, "residual");
        let sum = tape.add(hidden_states, residual);
        tape.release(core::mem::replace(hidden_states, sum));
    }

    fn attention(
        &self,
        tape: &mut Tape,
        layer: &Layer,
        hidden_states: &Tensor,
    ) -> (Tensor, Option<Tensor>) {
        let modules =
            [("q_proj", layer.q_proj), ("k_proj", layer.k_proj), ("v_proj", layer.v_proj)];
        let head_dim = self.config.hidden / self.config.heads;
        let [query, key, value] = projected_heads(tape, modules, hidden_states, head_dim);
        tape.enter(Block::Attention, "attn_output");
        let inputs = Inputs {
            query: &query,
            key: &key,
            value: &value,
            mask: None,
            groups: 1,
            dropout: self.config.attention_dropout,
            causal: false,
            softmax: Softmax::InF32,
            bounded: false,
        };
        let (mut attn_output, weights) = attend(tape, self.style.attention, inputs);
        tape.enter(Block::Attention, "o_proj");
        let projected = layer.o_proj.apply(tape, &attn_output);
        tape.release(core::mem::replace(&mut attn_output, projected));
        for tensor in [query, key, value] {
            tape.release(tensor);
        }
        (attn_output, weights)
    }
}

impl Layer {
    fn register(tape: &mut Tape, config: &Vit, dtype: DType, index: u64) -> Self {
        let Vit { hidden, intermediate, .. } = *config;
        let at = |module: &str| format!("vit.layers.{index}.{module}");
        let linear =
            |tape: &mut Tape, module: &str, sizes| Affine::linear(tape, &at(module), sizes, dtype);
        Self {
            q_proj: linear(tape, "attention.q_proj", [hidden, hidden]),
            k_proj: linear(tape, "attention.k_proj", [hidden, hidden]),
            v_proj: linear(tape, "attention.v_proj", [hidden, hidden]),
            o_proj: linear(tape, "attention.o_proj", [hidden, hidden]),
            norm_before: Affine::norm(tape, &at("layernorm_before"), hidden, dtype),
            norm_after: Affine::norm(tape, &at("layernorm_after"), hidden, dtype),
            fc1: linear(tape, "mlp.fc1", [hidden, intermediate]),
            fc2: linear(tape, "mlp.fc2", [intermediate, hidden]),
        }
    }
}
