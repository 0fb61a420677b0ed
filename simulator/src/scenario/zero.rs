//! `[parallel.zero]`: how it is read, and its rules.

use super::Table;
use super::limits::ZERO_ELEMENTS;
use super::words::Word;
use crate::wire::parallel::{ReduceDtype, Zero};
use crate::wire::scenario::{OptimizerName, Precision};
use crate::wire::{Fault, Faults, Rule, Scenario};

/// Reads the table.
pub(super) fn zero_table(mut table: Table<'_>, faults: &mut Faults) -> Zero {
    let defaults = Zero::default();
    let grad_accum_dtype = match table.value("grad_accum_dtype") {
        Some(_) => table.word("grad_accum_dtype", Word::WORDS, faults),
        None => None,
    };
    let overlap_comm = match table.value("overlap_comm") {
        Some(_) => table.flag_or("overlap_comm", false, faults),
        None => None,
    };
    let mut size =
        |key, default| table.integer_or(key, ZERO_ELEMENTS, default, faults).unwrap_or(default);
    let [reduce_bucket_size, allgather_bucket_size] = [
        size("reduce_bucket_size", defaults.reduce_bucket_size),
        size("allgather_bucket_size", defaults.allgather_bucket_size),
    ];
    let prefetch_bucket_size = size("prefetch_bucket_size", defaults.prefetch_bucket_size);
    let persistence = defaults.param_persistence_threshold;
    let param_persistence_threshold = size("param_persistence_threshold", persistence);
    let max_live_parameters = size("max_live_parameters", defaults.max_live_parameters);
    let max_reuse_distance = size("max_reuse_distance", defaults.max_reuse_distance);
    let sub_group_size = size("sub_group_size", defaults.sub_group_size);
    let mut flag = |key, default| table.flag_or(key, default, faults).unwrap_or(default);
    let contiguous_gradients = flag("contiguous_gradients", defaults.contiguous_gradients);
    let round_robin_gradients = flag("round_robin_gradients", defaults.round_robin_gradients);
    let offload_optimizer = flag("offload_optimizer", defaults.offload_optimizer);
    let offload_param = flag("offload_param", defaults.offload_param);
    table.finish(faults);
    Zero {
        reduce_bucket_size,
        allgather_bucket_size,
        overlap_comm,
        contiguous_gradients,
        round_robin_gradients,
        prefetch_bucket_size,
        param_persistence_threshold,
        max_live_parameters,
        max_reuse_distance,
        sub_group_size,
        offload_optimizer,
        offload_param,
        grad_accum_dtype,
    }
}

/// What the stages refuse, and what no program does yet.
pub(super) fn check_zero(scenario: &Scenario, faults: &mut Faults) {
    let zero = &scenario.parallel.zero;
    let mut fault = |path: &str, rule: Rule, reason: &str, mend: serde_json::Value| {
        let fault = Fault::new(path, rule, reason).arguments([reason.to_owned()]);
        faults.push(fault.mend(path, mend));
    };
    let stage = scenario.parallel.data.and_then(crate::wire::parallel::DataParallel::zero_stage);
    let Some(stage) = stage else {
        if scenario.precision == Precision::Fp16 {
            let reason = "weights in fp16 are simulated under DeepSpeed's stages alone";
            fault("precision", Rule::Unsupported, reason, "bf16".into());
        }
        return;
    };
    let path = "parallel.zero.reduce_bucket_size";
    if zero.reduce_bucket_size == 0 {
        let reason = "a bucket holds at least one element (`Field(gt=0)` in DeepSpeed's config)";
        fault(path, Rule::Range, reason, Zero::default().reduce_bucket_size.into());
    }
    if zero.offload_param && stage < 3 {
        let reason = "offloading weights is valid with stage 3 alone";
        fault("parallel.zero.offload_param", Rule::Conflict, reason, false.into());
    }
    if matches!(scenario.precision, Precision::AmpBf16 | Precision::AmpFp16) {
        let reason = "torch.autocast under DeepSpeed's stages is not simulated yet";
        fault("precision", Rule::Unsupported, reason, "bf16".into());
    }
    if zero.grad_accum_dtype == Some(ReduceDtype::Bf16) && scenario.precision != Precision::Bf16 {
        let reason = "adding up gradients in bf16 beside other weights is not simulated yet";
        fault("parallel.zero.grad_accum_dtype", Rule::Unsupported, reason, "fp32".into());
    }
    if !matches!(scenario.optimizer.name, OptimizerName::Adamw | OptimizerName::Sgd) {
        let name = scenario.optimizer.name.word();
        let reason = format!("`{name}` over DeepSpeed's partitions is not simulated yet");
        fault("optimizer.name", Rule::Unsupported, &reason, "adamw".into());
    }
    if scenario.adapter.is_some() {
        let reason = "adapters under DeepSpeed's stages are not simulated yet";
        fault("adapter", Rule::Unsupported, reason, serde_json::Value::Null);
    }
}
