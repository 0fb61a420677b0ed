//! `GPTModel`: the part of it that one stage, or one of its virtual stages, has.
//!
//! Source: megatron-core 0.19.2, `models/gpt/gpt_model.py`, `models/common/embeddings`,
//! `transformer/transformer_block.py`.

use crate::scenario::{MegatronGpt, Normalization, Position};
use crate::tape::{Block, ParamId, Part, Prim, Runner, StorageId, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};
use crate::wire::scenario::Checkpointing;
use crate::wire::timeline::Category;

use super::layer::{Layer, Linear, Norm};
use super::rank::Rank;

/// A model chunk's parameters.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Its number in its stage.
    pub(super) index: u64,
    pub(super) word_embeddings: Option<ParamId>,
    pub(super) position_embeddings: Option<ParamId>,
    /// The norm after the embedding (`embed_layernorm`).
    pub(super) embedding_norm: Option<Norm>,
    pub(super) layers: Vec<Layer>,
    /// The first layer's number in the model.
    first_layer: u64,
    pub(super) final_norm: Option<Norm>,
    pub(super) output_weight: Option<ParamId>,
    /// Frequencies of rotary embeddings: the inverse ones, and those of every position once made.
    pub(super) frequencies: [StorageId; 2],
}

/// What a micro-batch brings.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub(super) ids: &'a Tensor,
    pub(super) positions: &'a Tensor,
    pub(super) mask: &'a Tensor,
    /// What the stage before sent.
    pub(super) received: Option<&'a Tensor>,
}

/// What every function of the model is given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub(super) config: &'a MegatronGpt,
    pub(super) rank: &'a Rank,
    /// The chunk's number.
    pub(super) chunk: u64,
    pub(super) mask: &'a Tensor,
    /// Frequencies of every position.
    pub(super) frequencies: Option<&'a Tensor>,
}

impl Chunk {
    /// Registers the parameters in the order of the model's.
    pub(super) fn register(tape: &mut Tape, config: &MegatronGpt, rank: &Rank, index: u64) -> Self {
        let (first, last) = (rank.is_first(index), rank.is_last(index));
        let table = |tape: &mut Tape, name: &str, rows: u64| {
            tape.new_parameter(name.to_owned(), Shape::new([rows, config.hidden]), DType::BF16)
        };
        let vocab = config.vocab / rank.tensor;
        let word_embeddings = first.then(|| table(tape, "embedding.word_embeddings.weight", vocab));
        let position_embeddings = (first && config.position == Position::Learned)
            .then(|| table(tape, "embedding.position_embeddings.weight", config.positions));
        let norm = |tape: &mut Tape| Norm::register(tape, config, "embedding.norm");
        let embedding_norm = (first && config.embedding_norm).then(|| norm(tape));
        let inverse = if config.position == Position::Rope {
            inverse_frequencies(tape, config.rotary_dim)
        } else {
            StorageId::NONE
        };
        let (first_layer, count) = rank.layers(config, index);
        let layers = (first_layer..first_layer + count)
            .map(|layer| Layer::register(tape, config, rank, layer))
            .collect();
        let final_norm = last.then(|| Norm::register(tape, config, "decoder.final_layernorm"));
        // `skip_weight_param_allocation`: the embedding's weight serves where both are here.
        let own = last && !(first && config.tied);
        let output_weight = own.then(|| table(tape, "output_layer.weight", vocab));
        if own && rank.deepspeed {
            // `TiedLayerSpec` builds the whole `EmbeddingPipe` once more.
            if config.position == Position::Learned {
                table(tape, "output_layer.position_embeddings.weight", config.positions);
            }
            if config.embedding_norm {
                norm(tape);
            }
        }
        Self {
            index,
            word_embeddings,
            position_embeddings,
            embedding_norm,
            layers,
            first_layer,
            final_norm,
            output_weight,
            frequencies: [inverse, StorageId::NONE],
        }
    }

    /// The parameter that the first and the last stage share.
    pub(super) fn shared_embedding(&self) -> Option<ParamId> {
        self.word_embeddings.or(self.output_weight)
    }

    /// From ids or the stage before to the hidden state.
    pub(super) fn forward(
        &mut self,
        tape: &mut Tape,
        config: &MegatronGpt,
        rank: &Rank,
        batch: &Batch<'_>,
    ) -> Tensor {
        let embedded = match batch.received {
            Some(received) => tape.share(received),
            None if rank.deepspeed => {
                self.embed_pipe(tape, config, rank, [batch.ids, batch.positions])
            }
            None => self.embed(tape, config, rank, batch),
        };
        let frequencies = self.frequencies(tape, config, rank);
        let context = Context {
            config,
            rank,
            chunk: self.index,
            mask: batch.mask,
            frequencies: frequencies.as_ref(),
        };
        let mut hidden = embedded;
        if rank.checkpointing == Checkpointing::Full {
            for index in 0..self.layers.len() {
                let output = self.checkpointed(tape, &context, index, &hidden);
                tape.release(core::mem::replace(&mut hidden, output));
            }
        } else {
            for (index, layer) in self.layers.iter().enumerate() {
                let output =
                    layer.forward(tape, &context, number(self.first_layer, index), &hidden);
                tape.release(core::mem::replace(&mut hidden, output));
            }
        }
        if let Some(norm) = self.final_norm.as_ref().filter(|_| !rank.deepspeed) {
            tape.enter(Block::FinalNorm, "final_layernorm");
            let normed = norm.forward(tape, &hidden);
            tape.release(core::mem::replace(&mut hidden, normed));
        }
        if let Some(frequencies) = frequencies {
            tape.release(frequencies);
        }
        hidden
    }

    /// `CheckpointFunction` over one layer (`recompute_method = "uniform"`, one layer each).
    fn checkpointed(
        &self,
        tape: &mut Tape,
        context: &Context<'_>,
        index: usize,
        hidden: &Tensor,
    ) -> Tensor {
        let layer = u32::try_from(index).unwrap_or(u32::MAX);
        let chunk = u32::try_from(self.index).unwrap_or(u32::MAX);
        let part = Part::Layers { chunk, first: layer, count: 1 };
        let kept: Vec<&Tensor> =
            [hidden, context.mask].into_iter().chain(context.frequencies).collect();
        tape.checkpoint(part, &kept, &[hidden], |tape| {
            let number = number(self.first_layer, index);
            self.layers[index].forward(tape, context, number, hidden)
        })
    }

    /// Runs a layer again on a leaf.
    pub(super) fn rerun_layer(
        &self,
        tape: &mut Tape,
        context: &Context<'_>,
        index: usize,
        hidden: &Tensor,
    ) -> Tensor {
        self.layers[index].forward(tape, context, number(self.first_layer, index), hidden)
    }

    /// The layer's number in the model.
    pub(super) fn layer_number(&self, index: usize) -> u32 {
        number(self.first_layer, index)
    }

    /// Rows of the embedding, before what is done to them.
    pub(super) fn look_up(&self, tape: &mut Tape, rank: &Rank, ids: &Tensor) -> Tensor {
        let words = self.word_embeddings.expect("the first chunk has the embedding");
        vocab_parallel(tape, rank, ids, words, false)
    }

    /// `LanguageModelEmbedding.forward`.
    fn embed(
        &self,
        tape: &mut Tape,
        config: &MegatronGpt,
        rank: &Rank,
        batch: &Batch<'_>,
    ) -> Tensor {
        tape.enter(Block::Embedding, "word_embeddings");
        let words = self.word_embeddings.expect("the first chunk has the embedding");
        let scattered = rank.sequence && config.position != Position::Learned;
        let word = vocab_parallel(tape, rank, batch.ids, words, scattered);
        let mut hidden = match self.position_embeddings {
            Some(table) => {
                tape.enter(Block::Embedding, "position_embeddings");
                let position = tape.vocab_embedding(batch.positions, table);
                let sum = tape.add(&word, &position);
                let by_token = tokens_first(tape, &sum);
                tape.release(sum);
                let hidden = after_embedding(tape, config, rank, by_token, false);
                tape.release(word);
                tape.release(position);
                return hidden;
            }
            None if scattered => word,
            None => {
                let by_token = tokens_first(tape, &word);
                let hidden = after_embedding(tape, config, rank, by_token, false);
                tape.release(word);
                return hidden;
            }
        };
        hidden = after_embedding(tape, config, rank, hidden, true);
        hidden
    }

    /// Frequencies of every position: made at the first forward and kept (`lru_cache`).
    fn frequencies(
        &mut self,
        tape: &mut Tape,
        config: &MegatronGpt,
        rank: &Rank,
    ) -> Option<Tensor> {
        if config.position != Position::Rope {
            return None;
        }
        let shape = Shape::new([rank.tokens, 1, 1, 2 * (config.rotary_dim / 2)]);
        if self.frequencies[1] == StorageId::NONE {
            tape.enter(Block::Rotary, "rotary_pos_emb");
            let positions = Shape::new([rank.tokens]);
            let range = tape.helper(positions, DType::F32, Prim::Arange);
            let shifted = tape.helper(positions, DType::F32, Prim::Add);
            tape.release(range);
            let outer = Shape::new([rank.tokens, config.rotary_dim / 2]);
            let half = tape.helper(outer, DType::F32, Prim::Mul);
            tape.release(shifted);
            let both = tape.helper(shape, DType::F32, Prim::Cat);
            tape.release(half);
            tape.categorise(both.storage, Category::Weights);
            self.frequencies[1] = both.storage;
        }
        Some(tape.handle(self.frequencies[1], shape, DType::F32))
    }

    /// The losses of a micro-batch's tokens, `[batch, tokens]`.
    ///
    /// `fused`: by Transformer Engine's kernels.
    ///
    /// Source: `_postprocess`, `compute_language_model_loss`
    /// (`models/common/language_module/language_module.py`).
    pub(super) fn loss(
        &self,
        tape: &mut Tape,
        rank: &Rank,
        (hidden, labels): (Tensor, &Tensor),
        fused: bool,
    ) -> Tensor {
        tape.enter(Block::LmHead, "output_layer");
        let weight = self.output_weight.or(self.word_embeddings);
        let weight = weight.expect("the last chunk has the output projection");
        let logits = tape.parallel_linear(&hidden, weight, None, (rank.gathered(), Runner::Torch));
        tape.categorise(logits.storage, Category::Logits);
        tape.enter(Block::Loss, "vocab_parallel_cross_entropy");
        let by_token = Shape::new([rank.tokens, rank.batch]);
        let labels = if rank.batch == 1 {
            tape.view(labels, by_token)
        } else {
            tape.helper(by_token, DType::I64, Prim::Copy)
        };
        let loss = if fused {
            tape.cross_entropy_in_place(&logits, &labels, rank.tensor)
        } else {
            tape.vocab_parallel_cross_entropy(&logits, &labels)
        };
        let by_sequence = Shape::new([rank.batch, rank.tokens]);
        let losses = if rank.batch == 1 {
            tape.seen(&loss, by_sequence, Layout::Contiguous, Layout::Contiguous)
        } else {
            tape.made_contiguous(&loss, by_sequence, Layout::Transposed)
        };
        for tensor in [loss, labels, logits, hidden] {
            tape.release(tensor);
        }
        losses
    }
}

fn number(first: u64, index: usize) -> u32 {
    u32::try_from(first + index as u64).unwrap_or(u32::MAX)
}

/// `VocabParallelEmbedding.forward`.
fn vocab_parallel(
    tape: &mut Tape,
    rank: &Rank,
    ids: &Tensor,
    table: ParamId,
    scattered: bool,
) -> Tensor {
    let mut output = if 1 < rank.tensor {
        let [mask, masked] = tape.masked_ids(ids);
        let looked_up = tape.vocab_embedding(&masked, table);
        let output = tape.masked_fill_in_place(looked_up, &mask);
        tape.release(mask);
        tape.release(masked);
        output
    } else {
        tape.vocab_embedding(ids, table)
    };
    if scattered {
        let by_token = tokens_first(tape, &output);
        tape.release(core::mem::replace(&mut output, by_token));
        let &[tokens, batch, hidden] = output.shape.sizes() else { return output };
        let shape = Shape::new([tokens / rank.tensor, batch, hidden]);
        let part = tape.exchange(&output, shape);
        tape.release(core::mem::replace(&mut output, part));
    }
    output
}

/// `[batch, tokens, hidden]` as contiguous `[tokens, batch, hidden]`.
fn tokens_first(tape: &mut Tape, x: &Tensor) -> Tensor {
    let &[batch, tokens, hidden] = x.shape.sizes() else { return tape.share(x) };
    let shape = Shape::new([tokens, batch, hidden]);
    if batch == 1 || tokens == 1 {
        tape.seen(x, shape, Layout::Contiguous, Layout::Contiguous)
    } else {
        tape.made_contiguous(x, shape, Layout::Transposed)
    }
}

/// This rank's part of the sequence, cloned so that the whole can go, and dropout.
fn after_embedding(
    tape: &mut Tape,
    config: &MegatronGpt,
    rank: &Rank,
    mut hidden: Tensor,
    scattered: bool,
) -> Tensor {
    tape.enter(Block::Embedding, "embedding_dropout");
    if rank.sequence {
        if !scattered {
            let &[tokens, batch, width] = hidden.shape.sizes() else { return hidden };
            let shape = Shape::new([tokens / rank.tensor, batch, width]);
            let part = tape.scatter_rows(&hidden, shape);
            tape.release(core::mem::replace(&mut hidden, part));
        }
        let clone = tape.made_contiguous(&hidden, hidden.shape, Layout::Contiguous);
        tape.release(core::mem::replace(&mut hidden, clone));
    }
    let dropped = tape.dropout(&hidden, config.hidden_dropout);
    tape.release(hidden);
    dropped
}

/// `1 / base ** (arange(0, dim, 2) / dim)`: the exponents, the powers, their reciprocals, times one.
fn inverse_frequencies(tape: &mut Tape, dim: u64) -> StorageId {
    tape.enter(Block::Rotary, "inv_freq");
    let shape = Shape::new([dim / 2]);
    let range = tape.helper(shape, DType::F32, Prim::Arange);
    let exponent = tape.helper(shape, DType::F32, Prim::Div);
    tape.release(range);
    let power = tape.helper(shape, DType::F32, Prim::Pow);
    tape.release(exponent);
    let inverse = tape.helper(shape, DType::F32, Prim::Div);
    tape.release(power);
    tape.categorise(inverse.storage, Category::Weights);
    inverse.storage
}

impl Norm {
    /// Registers a norm under a module's path.
    pub(super) fn register(tape: &mut Tape, config: &MegatronGpt, path: &str) -> Self {
        let shape = Shape::new([config.hidden]);
        let weight = tape.new_parameter(format!("{path}.weight"), shape, DType::BF16);
        let bias = (config.normalization == Normalization::LayerNorm)
            .then(|| tape.new_parameter(format!("{path}.bias"), shape, DType::BF16));
        Self { weight, bias }
    }

    /// Its parameters as Transformer Engine's module takes them.
    pub(super) fn both(&self) -> [Option<ParamId>; 2] {
        [Some(self.weight), self.bias]
    }

    /// Runs it.
    pub(super) fn forward(&self, tape: &mut Tape, x: &Tensor) -> Tensor {
        match self.bias {
            Some(bias) => tape.layer_norm(x, self.weight, bias),
            None => tape.rms_norm(x, self.weight),
        }
    }
}

impl Linear {
    /// Its parameters as Transformer Engine's module takes them.
    pub(super) fn both(&self) -> [Option<ParamId>; 2] {
        [Some(self.weight), self.bias]
    }

    /// Registers a product's weight and bias under a module's path.
    pub(super) fn register(tape: &mut Tape, path: &str, sizes: [u64; 2], bias: bool) -> Self {
        let weight = tape.new_parameter(format!("{path}.weight"), Shape::new(sizes), DType::BF16);
        let shape = Shape::new([sizes[0]]);
        let bias = bias.then(|| tape.new_parameter(format!("{path}.bias"), shape, DType::BF16));
        Self { weight, bias }
    }
}
