//! The layout over several GPUs, as it changes construction and installs its hooks.

use crate::parallel::{Ddp, DdpOptions, Fsdp, FsdpOptions, ZeroOptions, parallelize, zero};
use crate::tape::{Hooks, ParamId, Sharding, Tape};
use crate::tensor::DType;
use crate::wire::Scenario;
use crate::wire::parallel::{DataParallel, ReduceDtype};

use super::optimizer::InBackward;
use super::weight_dtype;

/// Before the model is built: how its parameters are dealt out. Returns the element type that it
/// computes with.
pub(super) fn before_model(tape: &mut Tape, scenario: &Scenario) -> DType {
    let options = fsdp(scenario).filter(|_| scenario.parallel.fsdp.meta_init);
    let Some(options) = options else { return weight_dtype(scenario.precision) };
    let FsdpOptions { ranks, shard_dtype: dtype, cpu_offload: offload, .. } = options;
    tape.set_sharding(Some(Sharding { ranks, dtype, offload }));
    options.compute_dtype
}

/// After the model is built: the hooks. `tied`: an embedding that is the output projection too.
pub(super) fn after_model(tape: &mut Tape, scenario: &Scenario, tied: Option<ParamId>) {
    tape.set_sharding(None);
    if 1 < scenario.parallel.tensor {
        parallelize(tape, scenario.parallel.tensor, tied);
    }
    if let Some(options) = fsdp(scenario) {
        let hooks = Fsdp::new(tape, options);
        if !scenario.parallel.fsdp.meta_init {
            hooks.shard_whole(tape);
        }
        tape.install(Box::new(hooks));
    } else if scenario.parallel.data.and_then(DataParallel::zero_stage).is_some() {
        // Its stages empty the cache before they flatten the weights, not after.
        tape.empty_cache();
        let sizes = [scenario.hardware.count, scenario.workload.grad_accum];
        if let Some(hooks) = zero_hooks(tape, scenario, sizes) {
            tape.install(hooks);
        }
        return;
    } else if scenario.parallel.data == Some(DataParallel::Ddp) {
        let options = &scenario.parallel.ddp;
        let caps = [options.first_bucket_mb, options.bucket_cap_mb].map(|mib| mib << 20);
        let ranks = scenario.hardware.count;
        let hooks = Ddp::new(tape, DdpOptions { ranks, caps, bucket_view: options.bucket_view });
        tape.install(Box::new(hooks));
    } else if scenario.optimizer.in_backward {
        tape.install(Box::new(InBackward(scenario.optimizer.clone())));
    }
    tape.empty_cache();
}

/// `fully_shard`'s settings, when the replicas share everything.
fn fsdp(scenario: &Scenario) -> Option<FsdpOptions> {
    let parallel = &scenario.parallel;
    if parallel.data != Some(DataParallel::Fsdp2) {
        return None;
    }
    let options = &parallel.fsdp;
    let shard_dtype = weight_dtype(scenario.precision);
    let compute_dtype = if options.mixed_precision { DType::BF16 } else { shard_dtype };
    let reduce_dtype = options.reduce_dtype.map(|dtype| match dtype {
        ReduceDtype::Fp32 => DType::F32,
        ReduceDtype::Bf16 => DType::BF16,
    });
    Some(FsdpOptions {
        ranks: scenario.hardware.count,
        reshard_after_forward: options.reshard_after_forward,
        shard_dtype,
        compute_dtype,
        reduce_dtype,
        cpu_offload: options.cpu_offload,
        passes: if options.no_sync { scenario.workload.grad_accum } else { 1 },
        flat: options.flat,
    })
}

/// `DeepSpeed`'s stages over so many ranks, when the replicas share by them; `micro_batches`: backwards
/// between two updates, as the hooks are told of them.
pub fn zero_hooks(
    tape: &mut Tape,
    scenario: &Scenario,
    [ranks, micro_batches]: [u64; 2],
) -> Option<Box<dyn Hooks>> {
    let options = zero_options(scenario)?;
    Some(zero(tape, ZeroOptions { ranks, micro_batches, ..options }))
}

/// `DeepSpeed`'s settings, when the replicas share by stages.
fn zero_options(scenario: &Scenario) -> Option<ZeroOptions> {
    let stage = scenario.parallel.data.and_then(DataParallel::zero_stage)?;
    let options = &scenario.parallel.zero;
    let dtype = weight_dtype(scenario.precision);
    let accumulation = match options.grad_accum_dtype {
        Some(ReduceDtype::Fp32) => DType::F32,
        Some(ReduceDtype::Bf16) => DType::BF16,
        None => dtype,
    };
    Some(ZeroOptions {
        stage,
        ranks: scenario.hardware.count,
        dtype,
        accumulation,
        micro_batches: scenario.workload.grad_accum,
        reduce_bucket: options.reduce_bucket_size,
        overlap: options.overlap_comm.unwrap_or(stage == 3),
        // Offloading needs them contiguous.
        contiguous: options.contiguous_gradients || (stage < 3 && options.offload_optimizer),
        round_robin: options.round_robin_gradients,
        offload_optimizer: options.offload_optimizer,
        offload_param: options.offload_param,
        prefetch_bucket: options.prefetch_bucket_size,
        persistence: options.param_persistence_threshold,
        max_live: options.max_live_parameters,
        reuse_distance: options.max_reuse_distance,
        sub_group: options.sub_group_size,
    })
}
