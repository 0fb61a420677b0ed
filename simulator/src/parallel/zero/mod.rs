//! `DeepSpeed`'s `ZeRO`: ranks share out states (stage 1), gradients (2) and weights (3).
//!
//! The weights of a rank are cut from one flat tensor; fp32 copies of its part and the optimizer's
//! states belong to no single parameter, so that the hooks keep them and do the whole update.
//!
//! # Source
//!
//! deepspeed 0.19.8: `runtime/zero/stage_1_and_2.py`, `stage3.py`, `partition_parameters.py`,
//! `partitioned_param_coordinator.py`, `runtime/bf16_optimizer.py`, `runtime/engine.py`. Names here
//! are the names there.

mod bf16;
mod coordinator;
mod partition;
mod reduce;
mod scalars;
mod step;
mod weights;

use crate::clock::Pointwise;
use crate::primitives::pointwise;
use crate::tape::{Hooks, ParamId, Prim, StorageId, Tape};
use crate::tensor::DType;
use crate::wire::timeline::Category;

use bf16::Bf16Optimizer;
use partition::Partitioned;
use weights::Weights;

/// NCCL's send buffers begin at 4-byte boundaries (`nccl_start_alignment_factor`, elements).
const START_ALIGNMENT: u64 = 2;
/// The stream of gradients that are reduced beside backward.
const REDUCE_STREAM: u8 = 2;
/// The stream of weights that are gathered ahead.
const GATHER_STREAM: u8 = 1;

/// The settings of a stage. Sizes count elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one for each yes-or-no option")]
pub struct ZeroOptions {
    /// Stage: 1, 2 or 3.
    pub stage: u8,
    /// Ranks that share.
    pub ranks: u64,
    /// Element type of weights and gradients.
    pub dtype: DType,
    /// Element type in which gradients are added up.
    pub accumulation: DType,
    /// Micro-batches of a step.
    pub micro_batches: u64,
    /// `reduce_bucket_size`.
    pub reduce_bucket: u64,
    /// `overlap_comm`.
    pub overlap: bool,
    /// `contiguous_gradients`.
    pub contiguous: bool,
    /// `round_robin_gradients`.
    pub round_robin: bool,
    /// `offload_optimizer`.
    pub offload_optimizer: bool,
    /// `offload_param`.
    pub offload_param: bool,
    /// `prefetch_bucket_size`.
    pub prefetch_bucket: u64,
    /// `param_persistence_threshold`.
    pub persistence: u64,
    /// `max_live_parameters`.
    pub max_live: u64,
    /// `max_reuse_distance`.
    pub reuse_distance: u64,
    /// `sub_group_size`.
    pub sub_group: u64,
}

/// Wraps the model that is on the tape (`deepspeed.initialize`).
pub fn zero(tape: &mut Tape, options: ZeroOptions) -> Box<dyn Hooks> {
    let fp32_sum = options.dtype == DType::BF16 && options.accumulation == DType::F32;
    match options.stage {
        1 if fp32_sum && !options.offload_optimizer => Box::new(Bf16Optimizer::new(tape, options)),
        1 | 2 => Box::new(Partitioned::new(tape, options)),
        _ => Box::new(Weights::new(tape, options)),
    }
}

/// Parameters that are trained, in the model's order.
fn trained(tape: &Tape) -> Vec<ParamId> {
    (0..tape.n_params()).map(ParamId::new).filter(|&id| tape.param(id).trainable).collect()
}

fn elements(tape: &Tape, id: ParamId) -> u64 {
    tape.param(id).shape.elements()
}

/// Elements of the flat tensor of these parameters (`align_dense_tensors`).
///
/// # Formula
///
/// ```text
/// flat = ⌈N / (2 · ranks)⌉ · 2 · ranks
/// ```
fn aligned(count: u64, ranks: u64) -> u64 {
    count.next_multiple_of(START_ALIGNMENT * ranks)
}

/// Copies parameters into one flat tensor of which they become views: the padding, the tensor, then
/// each parameter's own bytes go (`flatten_dense_tensors_aligned`, `_update_model_bit16_weights`).
fn flatten(tape: &mut Tape, order: &[ParamId], ranks: u64, dtype: DType) -> (StorageId, u64) {
    let count = order.iter().map(|&id| elements(tape, id)).sum();
    let total = aligned(count, ranks);
    let padding = tape.allocate((total - count) * dtype.bytes(), Prim::Copy);
    let flat = tape.allocate(total * dtype.bytes(), Prim::Parameter);
    tape.run(Prim::Copy, pointwise(Pointwise::Copy, dtype, 2 * total * dtype.bytes()));
    tape.categorise(flat, Category::Weights);
    tape.release_storage(padding);
    for &id in order {
        tape.retain_storage(flat);
        let own = core::mem::replace(&mut tape.param_mut(id).storage, flat);
        tape.release_storage(own);
    }
    (flat, total)
}

/// Runs a hook on a stream and goes back to the default one.
fn on_stream<T>(tape: &mut Tape, stream: u8, work: impl FnOnce(&mut Tape) -> T) -> T {
    tape.set_stream(stream);
    let result = work(tape);
    tape.set_stream(0);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flat_tensor_divides_into_even_parts() {
        assert_eq!(aligned(456_000, 4), 456_000);
        assert_eq!(aligned(456_001, 4), 456_008);
        assert_eq!(aligned(3, 1), 4);
    }
}
