//! One rank of a Megatron-core job: what it holds of the model.

use crate::scenario::{MegatronGpt, ValidScenario};
use crate::wire::parallel::DataParallel;
use crate::wire::scenario::Checkpointing;

/// Sizes of the job, and of the part that the simulated rank has: the first of each group, in its
/// pipeline stage.
#[derive(Clone, Debug)]
pub(super) struct Rank {
    /// Tensor-parallel ranks.
    pub(super) tensor: u64,
    /// Whether they share the sequence between products.
    pub(super) sequence: bool,
    /// Pipeline stages.
    pub(super) pipeline: u64,
    /// Model chunks of a stage.
    pub(super) chunks: u64,
    /// The stage.
    pub(super) stage: u64,
    /// Ranks that share each sequence.
    pub(super) context: u64,
    /// Expert-parallel ranks.
    pub(super) expert: u64,
    /// Data-parallel replicas.
    pub(super) replicas: u64,
    /// Replicas of each expert.
    pub(super) expert_replicas: u64,
    /// Whether optimizer states are shared out.
    pub(super) distributed_optimizer: bool,
    /// Whether `DeepSpeed` runs the pipeline and the update.
    pub(super) deepspeed: bool,
    /// What is computed again.
    pub(super) checkpointing: Checkpointing,
    /// Sequences of a micro-batch.
    pub(super) batch: u64,
    /// Tokens of a sequence on this rank.
    pub(super) tokens: u64,
    /// Micro-batches of a step.
    pub(super) micro_batches: u64,
}

impl Rank {
    pub(super) fn of(scenario: &ValidScenario) -> Self {
        let document = scenario.document();
        let parallel = &document.parallel;
        let (world, pipeline, tensor) =
            (document.hardware.count, parallel.pipeline, parallel.tensor);
        Self {
            tensor,
            sequence: parallel.sequence,
            pipeline,
            chunks: parallel.virtual_stages,
            stage: parallel.stage,
            context: parallel.context,
            expert: parallel.expert,
            replicas: (world / (tensor * pipeline)).max(1),
            expert_replicas: (world / (tensor * pipeline * parallel.expert)).max(1),
            distributed_optimizer: parallel.data == Some(DataParallel::DistributedOptimizer),
            deepspeed: parallel.data == Some(DataParallel::Zero1),
            checkpointing: document.checkpointing,
            batch: document.workload.micro_batch,
            tokens: document.workload.seq_len / parallel.context,
            micro_batches: document.workload.grad_accum,
        }
    }

    /// How many times the rows of this rank a gathered sequence has.
    pub(super) fn gathered(&self) -> Option<u64> {
        self.sequence.then_some(self.tensor)
    }

    /// Tokens of each sequence between products.
    pub(super) const fn local_tokens(&self) -> u64 {
        if self.sequence { self.tokens / self.tensor } else { self.tokens }
    }

    /// Layers of a chunk: the first one's number in the model, and how many.
    ///
    /// Source: `get_transformer_layer_offset`, megatron-core 0.19.2
    /// (`transformer/transformer_layer.py`).
    pub(super) const fn layers(&self, model: &MegatronGpt, chunk: u64) -> (u64, u64) {
        let [first, last] = model.end_layers;
        if first.is_some() || last.is_some() {
            let middle = self.pipeline - first.is_some() as u64 - last.is_some() as u64;
            let [first_count, last_count] = [or_zero(first), or_zero(last)];
            let rest = model.layers - first_count - last_count;
            return match (self.stage, first) {
                (0, Some(count)) => (0, count),
                (stage, _) if stage + 1 == self.pipeline && last.is_some() => {
                    (model.layers - last_count, last_count)
                }
                (stage, Some(_)) => (first_count + (stage - 1) * (rest / middle), rest / middle),
                (stage, None) => (stage * (rest / middle), rest / middle),
            };
        }
        let [before, after] = [model.split_embedding as u64, model.split_loss as u64];
        let count = (model.layers + before + after) / (self.pipeline * self.chunks);
        let at = chunk * self.pipeline + self.stage;
        let first = if at == 0 { 0 } else { at * count - before };
        let end = if self.is_last(chunk) { model.layers } else { (at + 1) * count - before };
        (first, end - first)
    }

    /// Whether a chunk has the embedding.
    pub(super) const fn is_first(&self, chunk: u64) -> bool {
        self.stage == 0 && chunk == 0
    }

    /// Whether a chunk has the loss.
    pub(super) const fn is_last(&self, chunk: u64) -> bool {
        self.stage + 1 == self.pipeline && chunk + 1 == self.chunks
    }
}

const fn or_zero(count: Option<u64>) -> u64 {
    match count {
        Some(count) => count,
        None => 0,
    }
}
