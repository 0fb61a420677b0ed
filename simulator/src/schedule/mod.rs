//! Pipeline schedules: in which order a stage runs the forwards and backwards of its model chunks.
//!
//! Source: megatron-core 0.19.2, `pipeline_parallel/schedules.py`.

#[cfg(test)]
mod tests;

/// Forwards that a stage runs before its first backward, without virtual stages (1F1B).
pub const fn warmup(stages: u64, stage: u64, micro_batches: u64) -> u64 {
    let later = stages - stage - 1;
    if later < micro_batches { later } else { micro_batches }
}

/// The interleaved schedule of one stage: each runs several model chunks, as many micro-batches of one
/// chunk in a row as there are stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleaved {
    stages: u64,
    stage: u64,
    chunks: u64,
    micro_batches: u64,
    /// Forwards of all chunks and micro-batches.
    pub total: u64,
    /// Forwards before the first backward.
    pub warmup: u64,
    /// Whether the stage is the last: it gets no gradients from a later one.
    pub ends: bool,
}

impl Interleaved {
    /// The schedule of a stage.
    ///
    /// Source: `get_pp_rank_microbatches` with `microbatch_group_size_per_vp_stage` at its default, the
    /// number of stages.
    pub fn new(stages: u64, stage: u64, chunks: u64, micro_batches: u64) -> Self {
        let total = micro_batches * chunks;
        let warmup = ((stages - stage - 1) * 2 + (chunks - 1) * stages).min(total);
        let ends = stage + 1 == stages;
        Self { stages, stage, chunks, micro_batches, total, warmup, ends }
    }

    /// Micro-batch and chunk of the `k`-th forward (`get_schedule_table`).
    pub fn forward(&self, k: u64) -> (u64, usize) {
        let round = self.stages * self.chunks;
        let first = k / round * self.stages;
        let width = self.stages.min(self.micro_batches - first).max(1);
        let within = k % round;
        let chunk = usize::try_from(within / width).unwrap_or(usize::MAX);
        (first + within % width, chunk)
    }

    /// Chunk of the `k`-th backward.
    pub fn backward(&self, k: u64) -> usize {
        let (_, chunk) = self.forward(k % self.total);
        usize::try_from(self.chunks - 1).unwrap_or(usize::MAX) - chunk
    }

    fn chunk(&self, k: u64, forward: bool) -> usize {
        let k = k % self.total;
        if forward { self.forward(k).1 } else { self.backward(k) }
    }

    /// The chunk whose input, or gradient, is received with the `k`-th forward or backward for a later
    /// one, if one is (`recv_tensor_from_previous_stage`).
    pub fn receives(&self, k: u64, forward: bool) -> Option<usize> {
        let leads = if forward { self.stage == 0 } else { self.ends };
        if !leads {
            return Some(self.chunk(k + 1, forward));
        }
        // The stage that ends the round has not produced anything yet.
        let ahead = self.stages - 1;
        if k < ahead {
            return None;
        }
        let chunk = self.chunk(k - ahead, forward);
        let last = usize::try_from(self.chunks - 1).unwrap_or(usize::MAX);
        if forward { (chunk != last).then_some(chunk + 1) } else { chunk.checked_sub(1) }
    }
}
