//! Megatron-DeepSpeed: the local layers under `DeepSpeed`'s pipeline engine and `ZeRO` stage 1.
//!
//! # Source
//!
//! bigscience-workshop/Megatron-DeepSpeed at 8387ae1: `megatron/model/gpt_model.py` (`GPTModelPipe`),
//! `megatron/model/language_model.py` (`EmbeddingPipe`), `megatron/mpu/cross_entropy.py`. deepspeed
//! 0.5.10 and 0.6.3: `runtime/pipe/engine.py`, `runtime/bf16_optimizer.py`; the stages themselves are
//! those of `parallel`. What is sent between stages is cut among the tensor-parallel ranks
//! (`is_pipe_partitioned`): an output that was sent is emptied, and whole again for its backward.

use crate::program::zero_hooks;
use crate::scenario::{MegatronGpt, Position, ValidScenario};
use crate::tape::{Block, Hooks, ParamId, Prim, Runner, StorageId, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};
use crate::wire::parallel::ReduceDtype;
use crate::wire::scenario::Optimizer;
use crate::wire::timeline::Category;

use super::chunk::Chunk;
use super::rank::Rank;

/// Pipeline buffers of the last stage (`num_pipe_buffers`, at least two).
const BUFFERS: usize = 2;

/// What the engine holds beside the model.
#[derive(Debug)]
pub(super) struct DeepSpeed {
    hooks: Box<dyn Hooks>,
    optimizer: Optimizer,
    /// Whether gradients are added up in fp32 (`BF16_Optimizer`).
    sums_wide: bool,
    /// `pipe_buffers['outputs']` of the last stage: the logits of the last micro-batches.
    logits: [StorageId; BUFFERS],
    next: usize,
}

impl DeepSpeed {
    /// Wraps the model that is on the tape.
    pub(super) fn new(tape: &mut Tape, scenario: &ValidScenario, rank: &Rank) -> Option<Self> {
        let document = scenario.document();
        let sums_wide = document.parallel.zero.grad_accum_dtype == Some(ReduceDtype::Fp32);
        // Narrow gradients are reduced once, after the last backward.
        let told = if sums_wide { rank.micro_batches } else { 1 };
        let hooks = zero_hooks(tape, document, [rank.replicas, told])?;
        Some(Self {
            hooks,
            optimizer: document.optimizer.clone(),
            sums_wide,
            logits: [StorageId::NONE; BUFFERS],
            next: 0,
        })
    }

    /// `clear_lp_grads`: gradients that were added to the fp32 ones go before the next backward.
    pub(super) fn before_backward(&self, tape: &mut Tape) {
        if self.sums_wide {
            clear_gradients(tape);
        }
    }

    /// `update_hp_grads` after each backward; narrower gradients stay where autograd adds them up.
    pub(super) fn after_backward(&mut self, tape: &mut Tape) {
        if self.sums_wide {
            self.hooks.backward_returned(tape);
        }
    }

    /// `_exec_reduce_grads`, then `_exec_optimizer_step`.
    pub(super) fn step(&mut self, tape: &mut Tape) {
        if !self.sums_wide {
            for id in (0..tape.n_params()).map(ParamId::new) {
                if tape.param(id).grad.is_some() {
                    self.hooks.after_gradient(tape, id);
                }
            }
            self.hooks.backward_returned(tape);
        }
        self.hooks.update(tape, &self.optimizer);
        self.hooks.before_model(tape);
        clear_gradients(tape);
        // `_buffer_idx`: a micro-batch's number in its step.
        self.next = 0;
    }

    /// The logits stay in their pipeline buffer until it is used again.
    fn keep_logits(&mut self, tape: &mut Tape, logits: &Tensor) {
        let kept = tape.share(logits).storage;
        let old = core::mem::replace(&mut self.logits[self.next], kept);
        tape.release_storage(old);
        self.next = (self.next + 1) % BUFFERS;
    }

    /// Storages that live from one step to the next.
    pub(super) fn storages(&mut self) -> Vec<&mut StorageId> {
        self.hooks.storages().into_iter().chain(&mut self.logits).collect()
    }
}

fn clear_gradients(tape: &mut Tape) {
    for id in (0..tape.n_params()).map(ParamId::new) {
        if let Some(grad) = tape.param_mut(id).grad.take() {
            tape.release_storage(grad);
        }
    }
}

impl Chunk {
    /// `EmbeddingPipe.forward`, then `x.transpose(0, 1).contiguous()`.
    pub(super) fn embed_pipe(
        &self,
        tape: &mut Tape,
        config: &MegatronGpt,
        rank: &Rank,
        [ids, positions]: [&Tensor; 2],
    ) -> Tensor {
        tape.enter(Block::Embedding, "word_embeddings");
        let mut hidden = self.look_up(tape, rank, ids);
        if let Some(table) = self.position_embeddings {
            let position = tape.vocab_embedding(positions, table);
            let sum = tape.add(&hidden, &position);
            tape.release(position);
            tape.release(core::mem::replace(&mut hidden, sum));
        }
        if let Some(norm) = &self.embedding_norm {
            let normed = norm.forward(tape, &hidden);
            tape.release(core::mem::replace(&mut hidden, normed));
        }
        let dropped = tape.dropout(&hidden, config.hidden_dropout);
        tape.release(core::mem::replace(&mut hidden, dropped));
        let swapped = swapped(tape, &hidden);
        tape.release(hidden);
        swapped
    }

    /// From the last layer to the losses: `undo`, the norm, the logits in fp32, cross-entropy in place.
    pub(super) fn loss_pipe(
        &self,
        tape: &mut Tape,
        engine: &mut DeepSpeed,
        hidden: Tensor,
        labels: &Tensor,
    ) -> Tensor {
        tape.enter(Block::FinalNorm, "final_layernorm");
        let by_sequence = swapped(tape, &hidden);
        tape.release(hidden);
        let mut hidden = by_sequence;
        if let Some(norm) = &self.final_norm {
            let normed = norm.forward(tape, &hidden);
            tape.release(core::mem::replace(&mut hidden, normed));
        }
        tape.enter(Block::LmHead, "parallel_lm_logits");
        let weight = self.output_weight.or(self.word_embeddings);
        let weight = weight.expect("the last stage has the output projection");
        let narrow = tape.parallel_linear(&hidden, weight, None, (None, Runner::Torch));
        tape.categorise(narrow.storage, Category::Logits);
        tape.release(hidden);
        let logits = tape.cast(&narrow, DType::F32);
        tape.release(narrow);
        engine.keep_logits(tape, &logits);
        tape.enter(Block::Loss, "CrossEntropy");
        let losses = tape.vocab_parallel_cross_entropy(&logits, labels);
        tape.release(logits);
        losses
    }
}

/// The first two dimensions swapped, as a contiguous copy.
fn swapped(tape: &mut Tape, x: &Tensor) -> Tensor {
    let &[a, b, width] = x.shape.sizes() else { return tape.share(x) };
    let shape = Shape::new([b, a, width]);
    if a == 1 || b == 1 {
        tape.seen(x, shape, Layout::Contiguous, Layout::Contiguous)
    } else {
        tape.made_contiguous(x, shape, Layout::Transposed)
    }
}

/// `matmul_result`: made for each attention beside its result; the biases of `ALiBi` stand in for it.
pub(super) fn before_scores(tape: &mut Tape, config: &MegatronGpt, bytes: u64) -> StorageId {
    if config.position == Position::None {
        StorageId::NONE
    } else {
        tape.allocate(bytes, Prim::Bmm)
    }
}
