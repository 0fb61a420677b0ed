//! `BertForMaskedLM` and `RobertaForMaskedLM`.
//!
//! Source: transformers 5.17, `models/bert/modeling_bert.py`, `models/roberta/modeling_roberta.py`.
//! Without padding both attention functions get no mask (`_ignore_bidirectional_mask_sdpa`).

use crate::engine::Recompute;
use crate::primitives::scan_scratch;
use crate::scenario::Bert;
use crate::tape::{Block, ParamId, Prim, StorageId, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::affine::Affine;
use super::attention::{Inputs, Softmax, attend};
use super::llama::activate;
use super::plain::projected_heads;
use super::{Network, Style, parameter};

/// The model's parameters.
#[derive(Debug)]
pub(super) struct BertModel {
    config: Bert,
    style: Style,
    embeddings: Embeddings,
    layers: Vec<Layer>,
    head: Head,
}

#[derive(Debug)]
struct Embeddings {
    word: ParamId,
    position: ParamId,
    token_type: ParamId,
    norm: Affine,
}

#[derive(Debug)]
struct Layer {
    query: Affine,
    key: Affine,
    value: Affine,
    attention_output: Affine,
    attention_norm: Affine,
    intermediate: Affine,
    output: Affine,
    output_norm: Affine,
}

/// `BertLMPredictionHead`, `RobertaLMHead`.
#[derive(Debug)]
struct Head {
    dense: Affine,
    norm: Affine,
    decoder: Affine,
}

impl Network for BertModel {
    fn forward(&self, tape: &mut Tape, ids: &Tensor) -> Tensor {
        let embedding_output = self.embed(tape, ids);
        let mut hidden_states = tape.share(&embedding_output);
        for index in (0_u32..).take(self.layers.len()) {
            let layer = |tape: &mut Tape| self.layer(tape, index, &hidden_states);
            let output = self.style.run_layer(tape, (index, &hidden_states), [], layer);
            tape.release(core::mem::replace(&mut hidden_states, output));
        }
        tape.release(embedding_output);
        hidden_states
    }

    fn head(&self, tape: &mut Tape, sequence_output: &Tensor) -> Tensor {
        let Head { dense, norm, decoder } = self.head;
        tape.enter(Block::LmHead, "transform.dense");
        let mut hidden_states = dense.apply(tape, sequence_output);
        tape.enter(Block::LmHead, "transform.act_fn");
        let activated = activate(tape, &hidden_states, self.config.activation);
        tape.release(core::mem::replace(&mut hidden_states, activated));
        tape.enter(Block::LmHead, "transform.LayerNorm");
        let normed = norm.normed(tape, &hidden_states);
        tape.release(core::mem::replace(&mut hidden_states, normed));
        tape.enter(Block::LmHead, "decoder");
        let logits = decoder.apply(tape, &hidden_states);
        tape.release(hidden_states);
        logits
    }

    fn lm_head(&self) -> ParamId {
        self.head.decoder.weight
    }
}

impl Recompute for BertModel {
    fn recompute(&self, tape: &mut Tape, layer: u32, input: &Tensor, _arguments: &[Tensor]) {
        let output = self.layer(tape, layer, input);
        tape.release(output);
    }
}

impl BertModel {
    pub(super) fn register(tape: &mut Tape, config: &Bert, dtype: DType, style: Style) -> Self {
        let base = if config.is_roberta() { "roberta" } else { "bert" };
        let embeddings = Embeddings::register(tape, config, base, dtype);
        let layers = (0..config.layers)
            .map(|i| Layer::register(tape, config, &format!("{base}.encoder.layer.{i}"), dtype))
            .collect();
        let head = Head::register(tape, config, embeddings.word, dtype);
        Self { config: config.clone(), style, embeddings, layers, head }
    }

    fn embed(&self, tape: &mut Tape, ids: &Tensor) -> Tensor {
        let Embeddings { word, position, token_type, norm } = self.embeddings;
        let roberta = self.config.is_roberta();
        tape.enter(Block::Embedding, "position_ids");
        let position_ids = self.position_ids(tape, ids);
        tape.enter(Block::Embedding, "token_type_ids");
        let buffered = tape.helper(position_ids.shape, DType::I64, Prim::Gather);
        let token_type_ids = tape.expand(&buffered, ids.shape);
        tape.enter(Block::Embedding, "word_embeddings");
        let inputs_embeds = tape.embedding(ids, word, true);
        tape.enter(Block::Embedding, "token_type_embeddings");
        let token_type_embeddings = tape.embedding(&token_type_ids, token_type, false);
        let mut embeddings = tape.add(&inputs_embeds, &token_type_embeddings);
        tape.enter(Block::Embedding, "position_embeddings");
        let position_embeddings = tape.embedding(&position_ids, position, roberta);
        let sum = tape.add(&embeddings, &position_embeddings);
        tape.release(core::mem::replace(&mut embeddings, sum));
        tape.enter(Block::Embedding, "LayerNorm");
        let normed = norm.normed(tape, &embeddings);
        tape.release(core::mem::replace(&mut embeddings, normed));
        tape.enter(Block::Embedding, "dropout");
        let dropped = tape.dropout(&embeddings, self.config.hidden_dropout);
        tape.release(core::mem::replace(&mut embeddings, dropped));
        let locals = [token_type_ids, position_ids, inputs_embeds, buffered];
        for tensor in locals.into_iter().chain([token_type_embeddings, position_embeddings]) {
            tape.release(tensor);
        }
        embeddings
    }

    /// BERT's are part of a buffer. `RoBERTa` counts the tokens that are no padding
    /// (`create_position_ids_from_input_ids`); the running count of one sequence alone is a scan by
    /// CUB, as in `find_packed_sequence_indices`.
    fn position_ids(&self, tape: &mut Tape, ids: &Tensor) -> Tensor {
        let &[batch, tokens] = ids.shape.sizes() else { unreachable!("ids are [batch, tokens]") };
        if !self.config.is_roberta() {
            return tape.handle(StorageId::NONE, Shape::new([1, tokens]), DType::I64);
        }
        let of = |tape: &mut Tape, dtype, prim| tape.helper(ids.shape, dtype, prim);
        let differs = of(tape, DType::Bool, Prim::Mask);
        let mask = of(tape, DType::I32, Prim::Copy);
        tape.release(differs);
        let count = of(tape, DType::I64, Prim::Sum);
        let widened = of(tape, DType::I64, Prim::Copy);
        if batch == 1 {
            tape.scratch(scan_scratch(tokens), Prim::Sum);
        }
        tape.release(widened);
        let narrowed = of(tape, DType::I32, Prim::Copy);
        tape.release(count);
        let shifted = of(tape, DType::I32, Prim::Add);
        tape.release(narrowed);
        let incremental = of(tape, DType::I32, Prim::Mul);
        tape.release(shifted);
        let long = of(tape, DType::I64, Prim::Copy);
        let position_ids = of(tape, DType::I64, Prim::Add);
        for tensor in [long, mask, incremental] {
            tape.release(tensor);
        }
        position_ids
    }

    fn layer(&self, tape: &mut Tape, index: u32, hidden_states: &Tensor) -> Tensor {
        let layer = &self.layers[index as usize];
        tape.enter_layer(Some(index));
        let (attn_output, weights) = self.attention(tape, layer, hidden_states);
        tape.enter(Block::Attention, "output.dense");
        let output = [layer.attention_output, layer.attention_norm];
        let attention_output = self.output(tape, output, &attn_output, hidden_states);
        tape.release(attn_output);

        tape.enter(Block::Mlp, "intermediate.dense");
        let mut intermediate = layer.intermediate.apply(tape, &attention_output);
        tape.enter(Block::Mlp, "intermediate_act_fn");
        let activated = activate(tape, &intermediate, self.config.activation);
        tape.release(core::mem::replace(&mut intermediate, activated));
        tape.enter(Block::Mlp, "output.dense");
        let output = [layer.output, layer.output_norm];
        let layer_output = self.output(tape, output, &intermediate, &attention_output);
        for tensor in [Some(intermediate), weights, Some(attention_output)].into_iter().flatten() {
            tape.release(tensor);
        }
        tape.enter_layer(None);
        layer_output
    }

    fn attention(
        &self,
        tape: &mut Tape,
        layer: &Layer,
        hidden_states: &Tensor,
    ) -> (Tensor, Option<Tensor>) {
        let modules = [("query", layer.query), ("key", layer.key), ("value", layer.value)];
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
            softmax: Softmax::Plain,
            bounded: false,
        };
        let attended = attend(tape, self.style.attention, inputs);
        for tensor in [query, key, value] {
            tape.release(tensor);
        }
        attended
    }

    /// `BertSelfOutput`, `BertOutput`: `LayerNorm(dropout(dense(x)) + input)`.
    fn output(
        &self,
        tape: &mut Tape,
        [dense, norm]: [Affine; 2],
        x: &Tensor,
        input: &Tensor,
    ) -> Tensor {
        let block = tape.scope().block;
        let mut hidden_states = dense.apply(tape, x);
        tape.enter(block, "output.dropout");
        let dropped = tape.dropout(&hidden_states, self.config.hidden_dropout);
        tape.release(core::mem::replace(&mut hidden_states, dropped));
        tape.enter(Block::Residual, "residual");
        let sum = tape.add(&hidden_states, input);
        let norms = if block == Block::Mlp { Block::PostNorm } else { Block::InputNorm };
        tape.enter(norms, "output.LayerNorm");
        let normed = norm.normed(tape, &sum);
        tape.release(sum);
        tape.release(hidden_states);
        normed
    }
}

impl Embeddings {
    /// `RoBERTa` makes its positions last.
    fn register(tape: &mut Tape, config: &Bert, base: &str, dtype: DType) -> Self {
        let table = |tape: &mut Tape, name: &str, rows: u64| {
            let name = format!("{base}.embeddings.{name}_embeddings.weight");
            parameter(tape, name, [rows, config.hidden], dtype)
        };
        let norm = format!("{base}.embeddings.LayerNorm");
        let word = table(tape, "word", config.vocab);
        if config.is_roberta() {
            let token_type = table(tape, "token_type", config.token_types);
            let norm = Affine::norm(tape, &norm, config.hidden, dtype);
            let position = table(tape, "position", config.positions);
            return Self { word, position, token_type, norm };
        }
        let position = table(tape, "position", config.positions);
        let token_type = table(tape, "token_type", config.token_types);
        let norm = Affine::norm(tape, &norm, config.hidden, dtype);
        Self { word, position, token_type, norm }
    }
}

impl Layer {
    fn register(tape: &mut Tape, config: &Bert, at: &str, dtype: DType) -> Self {
        let Bert { hidden, intermediate, .. } = *config;
        let linear = |tape: &mut Tape, module: &str, sizes| {
            Affine::linear(tape, &format!("{at}.{module}"), sizes, dtype)
        };
        let norm = |tape: &mut Tape, module: &str| {
            Affine::norm(tape, &format!("{at}.{module}"), hidden, dtype)
        };
        Self {
            query: linear(tape, "attention.self.query", [hidden, hidden]),
            key: linear(tape, "attention.self.key", [hidden, hidden]),
            value: linear(tape, "attention.self.value", [hidden, hidden]),
            attention_output: linear(tape, "attention.output.dense", [hidden, hidden]),
            attention_norm: norm(tape, "attention.output.LayerNorm"),
            intermediate: linear(tape, "intermediate.dense", [hidden, intermediate]),
            output: linear(tape, "output.dense", [intermediate, hidden]),
            output_norm: norm(tape, "output.LayerNorm"),
        }
    }
}

impl Head {
    /// The decoder's weight and bias are the word embedding and the head's own bias when tied.
    fn register(tape: &mut Tape, config: &Bert, word: ParamId, dtype: DType) -> Self {
        let Bert { hidden, vocab, .. } = *config;
        let (base, transform, norm) = if config.is_roberta() {
            ("lm_head", "lm_head.dense", "lm_head.layer_norm")
        } else {
            let base = "cls.predictions";
            (base, "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm")
        };
        let bias = parameter(tape, format!("{base}.bias"), [vocab], dtype);
        let dense = Affine::linear(tape, transform, [hidden, hidden], dtype);
        let norm = Affine::norm(tape, norm, hidden, dtype);
        let decoder = if config.tied {
            Affine { weight: word, bias }
        } else {
            Affine::linear(tape, &format!("{base}.decoder"), [hidden, vocab], dtype)
        };
        Self { dense, norm, decoder }
    }
}
