//! The layout over several GPUs: how it is read, and its rules.

use super::Table;
use super::families::{Architecture, Family};
use super::limits;
use super::words::Word;
use super::zero::{check_zero, zero_table};
use crate::wire::parallel::{DataParallel, Ddp, Fsdp, Parallel, ReduceDtype};
use crate::wire::scenario::{BaseFormat, Framework, Loss, Precision};
use crate::wire::{Fault, Faults, Rule, Scenario};

/// Reads the table `parallel`.
pub(super) fn parallel_table(mut table: Table<'_>, faults: &mut Faults) -> Parallel {
    let defaults = Parallel::default();
    let mut degree = |key| table.integer_or(key, limits::GPU_COUNT, 1, faults).unwrap_or(1);
    let [tensor, pipeline, virtual_stages, expert, context] =
        ["tensor", "pipeline", "virtual_stages", "expert", "context"].map(&mut degree);
    let stage = table.integer_or("stage", 0..=*limits::GPU_COUNT.end(), 0, faults);
    let sequence = table.flag_or("sequence", false, faults);
    let data = match table.value("data") {
        Some(_) => table.word("data", DataParallel::WORDS, faults),
        None => None,
    };
    let ddp = table.table("ddp", faults).map(|table| ddp_table(table, faults));
    let fsdp = table.table("fsdp", faults).map(|table| fsdp_table(table, faults));
    let zero = table.table("zero", faults).map(|table| zero_table(table, faults));
    table.finish(faults);
    Parallel {
        tensor,
        sequence: sequence.unwrap_or(defaults.sequence),
        pipeline,
        virtual_stages,
        expert,
        context,
        stage: stage.unwrap_or(defaults.stage),
        data,
        ddp: ddp.unwrap_or_default(),
        fsdp: fsdp.unwrap_or_default(),
        zero: zero.unwrap_or_default(),
    }
}

fn ddp_table(mut table: Table<'_>, faults: &mut Faults) -> Ddp {
    let defaults = Ddp::default();
    let mut size =
        |key, default| table.integer_or(key, limits::BUCKET_MB, default, faults).unwrap_or(default);
    let bucket_cap_mb = size("bucket_cap_mb", defaults.bucket_cap_mb);
    let first_bucket_mb = size("first_bucket_mb", defaults.first_bucket_mb);
    let bucket_view = table.flag_or("bucket_view", defaults.bucket_view, faults);
    table.finish(faults);
    Ddp { bucket_cap_mb, bucket_view: bucket_view.unwrap_or(defaults.bucket_view), first_bucket_mb }
}

fn fsdp_table(mut table: Table<'_>, faults: &mut Faults) -> Fsdp {
    let defaults = Fsdp::default();
    let reduce_dtype = match table.value("reduce_dtype") {
        Some(_) => table.word("reduce_dtype", Word::WORDS, faults),
        None => None,
    };
    let mut flag = |key, default| table.flag_or(key, default, faults).unwrap_or(default);
    let fsdp = Fsdp {
        reshard_after_forward: flag("reshard_after_forward", defaults.reshard_after_forward),
        mixed_precision: flag("mixed_precision", defaults.mixed_precision),
        reduce_dtype,
        cpu_offload: flag("cpu_offload", defaults.cpu_offload),
        meta_init: flag("meta_init", defaults.meta_init),
        no_sync: flag("no_sync", defaults.no_sync),
        flat: flag("flat", defaults.flat),
    };
    table.finish(faults);
    fsdp
}

/// Checks the layout against the GPUs and, where it is known, the model.
pub(super) fn check_parallel(
    scenario: &Scenario,
    architecture: Option<&Architecture>,
    faults: &mut Faults,
) {
    check_ranges(&scenario.parallel, faults);
    // A model that could not be read is judged by the framework alone.
    let [megatron, shares] = match architecture {
        Some(Architecture::Megatron(model)) => [true, model.engine.is_some()],
        Some(_) => [false; 2],
        None => [scenario.stack.framework == Framework::MegatronCore; 2],
    };
    check_unsupported(scenario, [megatron, shares], faults);
    if matches!(architecture, Some(Architecture::Vision(_))) {
        check_images(scenario, faults);
    }
    check_zero(scenario, faults);
    check_count(scenario, faults);
    let parallel = &scenario.parallel;
    if 1 < parallel.tensor && !megatron {
        if let Some(architecture) = architecture {
            check_tensor(parallel.tensor, architecture, faults);
        }
        check_mixed(scenario, faults);
    }
}

/// Where some parameters are dealt out and others are not, multi-tensor operations over all gradients
/// refuse them (`got mixed torch.Tensor and DTensor` in `torch/distributed/tensor/_dispatch.py`).
fn check_mixed(scenario: &Scenario, faults: &mut Faults) {
    let mut conflict = |path: &str, what: &str, mend: serde_json::Value| {
        let message = format!(
            "{what} takes all gradients at once, and `parallel.tensor` leaves some of them plain \
             tensors beside distributed ones: PyTorch refuses that"
        );
        faults.push(Fault::new(path, Rule::Conflict, message).mend(path, mend));
    };
    if scenario.precision == Precision::AmpFp16 {
        conflict("precision", "the gradient scaler", "amp_bf16".into());
    }
    if scenario.optimizer.clip_grad_norm {
        conflict("optimizer.clip_grad_norm", "`clip_grad_norm_`", false.into());
    }
}

fn check_ranges(parallel: &Parallel, faults: &mut Faults) {
    let mut check = |path: &str, value: u64, lowest: u64, highest: u64| {
        if value < lowest || highest < value {
            let (low, high) = (lowest.to_string(), highest.to_string());
            let fault = super::document::range_fault(path, &value.to_string(), &low, &high);
            faults.push(fault.mend(path, value.clamp(lowest, highest)));
        }
    };
    let most = *limits::GPU_COUNT.end();
    check("parallel.tensor", parallel.tensor, 1, most);
    check("parallel.pipeline", parallel.pipeline, 1, most);
    check("parallel.virtual_stages", parallel.virtual_stages, 1, most);
    check("parallel.expert", parallel.expert, 1, most);
    check("parallel.context", parallel.context, 1, most);
    check("parallel.stage", parallel.stage, 0, parallel.pipeline.saturating_sub(1));
    let [low, high] = [*limits::BUCKET_MB.start(), *limits::BUCKET_MB.end()];
    check("parallel.ddp.bucket_cap_mb", parallel.ddp.bucket_cap_mb, low, high);
    check("parallel.ddp.first_bucket_mb", parallel.ddp.first_bucket_mb, low, high);
}

/// What a scenario can say and no program does yet.
fn check_unsupported(scenario: &Scenario, [megatron, shares]: [bool; 2], faults: &mut Faults) {
    let parallel = &scenario.parallel;
    let mut unsupported = |path: &str, reason: &str, off: serde_json::Value| {
        let fault = Fault::new(path, Rule::Unsupported, reason).arguments([reason.to_owned()]);
        faults.push(fault.mend(path, off));
    };
    let degrees = [
        ("parallel.pipeline", parallel.pipeline, "pipeline stages are not simulated yet"),
        (
            "parallel.virtual_stages",
            parallel.virtual_stages,
            "virtual stages are not simulated yet",
        ),
        ("parallel.expert", parallel.expert, "expert parallelism is not simulated yet"),
        ("parallel.context", parallel.context, "context parallelism is not simulated yet"),
    ];
    for (path, degree, reason) in degrees {
        // Megatron-core's stack has its own rules; sequences are shared with Transformer Engine alone.
        let ruled = if path == "parallel.context" { shares } else { megatron };
        if 1 < degree && !ruled {
            unsupported(path, reason, 1.into());
        }
    }
    if megatron {
        return;
    }
    if parallel.sequence {
        unsupported("parallel.sequence", "sequence parallelism is not simulated yet", false.into());
    }
    if let Some(data) = parallel.data.filter(|data| *data == DataParallel::DistributedOptimizer) {
        let reason = format!("`{}` is not simulated yet", data.word());
        unsupported("parallel.data", &reason, "fsdp2".into());
    }
    if 1 < parallel.tensor && parallel.data.is_some() {
        let reason = "tensor parallelism together with data parallelism is not simulated yet";
        unsupported("parallel.tensor", reason, 1.into());
    }
    let fsdp = parallel.data == Some(DataParallel::Fsdp2);
    let local = fsdp || 1 < parallel.tensor;
    if fsdp && parallel.fsdp.cpu_offload && scenario.precision == Precision::AmpFp16 {
        let reason = "a gradient scaler over gradients in host memory is not simulated yet";
        unsupported("precision", reason, "amp_bf16".into());
    }
    let narrow = parallel.fsdp.reduce_dtype == Some(ReduceDtype::Bf16);
    if fsdp && narrow && !parallel.fsdp.mixed_precision && scenario.precision != Precision::Bf16 {
        let reason = "reducing fp32 gradients in bf16 is not simulated yet";
        unsupported("parallel.fsdp.reduce_dtype", reason, "fp32".into());
    }
    if 1 < parallel.tensor && scenario.stack.loss == Loss::FusedLinear {
        let reason = "a fused loss over an output projection in shards is not simulated yet";
        unsupported("stack.loss", reason, "transformers5".into());
    }
    if local && !scenario.optimizer.name.is_elementwise() {
        let name = scenario.optimizer.name.word();
        let reason = format!("`{name}` over parameters in shards is not simulated yet");
        unsupported("optimizer.name", &reason, "adamw".into());
    }
    check_adapter(scenario, faults);
}

/// What adapters cannot be beside yet.
fn check_adapter(scenario: &Scenario, faults: &mut Faults) {
    let parallel = &scenario.parallel;
    let fsdp = parallel.data == Some(DataParallel::Fsdp2);
    let mut unsupported = |path: &str, reason: &str, off: serde_json::Value| {
        let fault = Fault::new(path, Rule::Unsupported, reason).arguments([reason.to_owned()]);
        faults.push(fault.mend(path, off));
    };
    let adapter = scenario.adapter.as_ref();
    if adapter.is_some() && 1 < parallel.tensor {
        let reason = "adapters of a model in parts of its products are not simulated yet";
        unsupported("adapter", reason, serde_json::Value::Null);
    }
    let quantised = adapter.is_some_and(|one| one.base != BaseFormat::Whole);
    let partly = 1 < parallel.tensor || (fsdp && !parallel.fsdp.meta_init);
    if quantised && (partly || scenario.precision != Precision::Bf16) {
        let reason = "quantised weights under tensor parallelism, without `meta_init`, or under another \
                      precision than `bf16` are not simulated yet";
        unsupported("adapter.base", reason, "whole".into());
    }
    // `FSDP expects uniform original parameter dtype` (`_fsdp_param_group.py`).
    if fsdp && scenario.precision == Precision::Bf16 && adapter.is_some_and(|one| one.autocast) {
        let reason = "`fully_shard` wants adapters in the element type of the weights beside them";
        unsupported("adapter.autocast", reason, false.into());
    }
}

/// Modules of image networks are not dealt out yet.
fn check_images(scenario: &Scenario, faults: &mut Faults) {
    if let Some(data) = scenario.parallel.data.filter(|data| *data != DataParallel::Ddp) {
        let reason = format!("`{}` of torchvision's models is not simulated yet", data.word());
        let fault = Fault::new("parallel.data", Rule::Unsupported, &*reason).arguments([reason]);
        faults.push(fault.mend("parallel.data", "ddp"));
    }
}

/// The GPUs are a whole number of replicas, and several replicas share something.
fn check_count(scenario: &Scenario, faults: &mut Faults) {
    let (count, parallel) = (scenario.hardware.count, &scenario.parallel);
    let Parallel { tensor, pipeline, context, .. } = *parallel;
    let ranks = [tensor, pipeline, context].into_iter().fold(1, u64::saturating_mul).max(1);
    if !count.is_multiple_of(ranks) {
        let path = "hardware.count";
        let message = format!(
            "{count} GPUs are no multiple of the {ranks} ranks of one replica \
             (`parallel.tensor` {tensor} · `parallel.pipeline` {pipeline} · `parallel.context` {context})"
        );
        let fault = Fault::new(path, Rule::Divisible, message)
            .arguments([count.to_string(), ranks.to_string()]);
        faults.push(fault.mend(path, ranks));
    } else if ranks < count && parallel.data.is_none() {
        let path = "parallel.data";
        let message = format!(
            "{} replicas of the model (`hardware.count` {count}) share their gradients somehow: \
             say how",
            count / ranks
        );
        let fault = Fault::new(path, Rule::Missing, message);
        faults.push(fault.mend(path, "ddp").mend(path, "fsdp2").mend("hardware.count", ranks));
    } else if count == ranks && parallel.data == Some(DataParallel::Fsdp2) {
        let message = "there is nothing to share out: `hardware.count` leaves one replica";
        let fault = Fault::new("parallel.data", Rule::Conflict, message);
        faults.push(fault.mend("parallel.data", serde_json::Value::Null));
    }
}

/// The linear layers of the plan: without all of them a rank's parts do not fit together.
const OF_ATTENTION: [&str; 4] = ["q_proj", "k_proj", "v_proj", "o_proj"];
/// The same of a plain MLP; experts stay whole.
const OF_MLP: [&str; 3] = ["gate_proj", "up_proj", "down_proj"];

/// `ColwiseParallel` and `RowwiseParallel` deal rows and columns out in equal parts; a rank's part
/// of q, k and v is seen as whole heads.
///
/// # Source
///
/// `torch/distributed/tensor/parallel/style.py`, PyTorch 2.11; `view(hidden_shape)` in
/// `LlamaAttention.forward`, transformers 5.17.
fn check_tensor(tensor: u64, architecture: &Architecture, faults: &mut Faults) {
    let path = "parallel.tensor";
    let projections = architecture.family().projections();
    let has = |names: &[&str]| names.iter().all(|name| projections.iter().any(|p| p.name == *name));
    let llama = match architecture {
        Architecture::Llama(llama)
            if has(&OF_ATTENTION) && (llama.experts.is_some() || has(&OF_MLP)) =>
        {
            llama
        }
        other => {
            let class = other.family().class();
            let message = format!("tensor parallelism of {class} is not simulated yet");
            let fault = Fault::new(path, Rule::Unsupported, message);
            faults.push(fault.arguments([class.to_owned()]).mend(path, 1));
            return;
        }
    };
    let rules = [
        ("num_attention_heads", llama.heads),
        ("num_key_value_heads", llama.kv_heads),
        ("intermediate_size", llama.intermediate),
        ("vocab_size", llama.vocab()),
    ];
    let plain_layers = llama.experts.as_ref().is_none_or(|experts| 0 < experts.first_layer);
    for (field, size) in rules {
        if field == "intermediate_size" && !plain_layers {
            continue;
        }
        if !size.is_multiple_of(tensor) {
            let message =
                format!("`parallel.tensor` {tensor} does not divide `{field}` {size} of the model");
            let arguments = [size.to_string(), "multiple of".to_owned(), tensor.to_string()];
            let fault = Fault::new(path, Rule::Divisible, message).arguments(arguments);
            faults.push(fault.mend(path, common(size, tensor)));
        }
    }
}

/// The largest number that divides both.
pub(super) const fn common(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
