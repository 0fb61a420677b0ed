//! What Megatron-core's stack asks of a scenario, beside what every layout must keep.

use super::families::{Architecture, Family, MegatronGpt};
use super::words::Word;
use crate::wire::parallel::{DataParallel, Parallel};
use crate::wire::scenario::{
    Checkpointing, Framework, Implementation, OptimizerName, Precision, Scenario,
};
use crate::wire::{Fault, Faults, Rule};

/// Under Megatron-core a transformers model is what Megatron-core makes of it; `None` when it cannot.
pub(super) fn translate(
    scenario: &Scenario,
    architecture: Architecture,
    faults: &mut Faults,
) -> Option<Architecture> {
    if scenario.stack.framework != Framework::MegatronCore {
        return Some(architecture);
    }
    match MegatronGpt::of(&architecture, &scenario.parallel) {
        Ok(model) => Some(Architecture::Megatron(model)),
        Err(reason) => {
            let path = "stack.framework";
            let fault = Fault::new(path, Rule::Unsupported, reason);
            faults.push(fault.arguments([reason.to_owned()]).mend(path, "transformers"));
            None
        }
    }
}

/// Checks that model, software and choices are of one stack.
pub(super) fn check_framework(
    scenario: &Scenario,
    architecture: Option<&Architecture>,
    faults: &mut Faults,
) {
    let framework = scenario.stack.framework;
    let Some(architecture) = architecture else { return };
    let path = "stack.framework";
    match (architecture, framework) {
        (Architecture::Megatron(model), Framework::MegatronCore) => {
            check_choices(scenario, faults);
            check_layout(scenario, model, faults);
        }
        (Architecture::Megatron(_), Framework::Transformers) => {
            let message = "this model is Megatron-core's, and the framework is transformers";
            faults.push(Fault::new(path, Rule::Conflict, message).mend(path, "megatron_core"));
        }
        // It could not be translated, which is a fault already.
        (_, Framework::MegatronCore) => {}
        (_, Framework::Transformers) => {
            if scenario.checkpointing == Checkpointing::Selective {
                let path = "checkpointing";
                let message = "transformers checkpoints whole layers: only Megatron-core has \
                               selective recomputation";
                faults.push(Fault::new(path, Rule::Conflict, message).mend(path, "full"));
            }
        }
    }
}

/// Software that this stack's program has.
fn check_choices(scenario: &Scenario, faults: &mut Faults) {
    let mut unsupported = |path: &str, reason: &str, mend: serde_json::Value| {
        let fault = Fault::new(path, Rule::Unsupported, reason).arguments([reason.to_owned()]);
        faults.push(fault.mend(path, mend));
    };
    let deepspeed = scenario.parallel.data == Some(DataParallel::Zero1);
    if scenario.precision != Precision::Bf16
        && !(deepspeed && scenario.precision == Precision::Fp16)
    {
        let reason = "Megatron-core is simulated in bf16 alone";
        unsupported("precision", reason, "bf16".into());
    }
    let optimizer = &scenario.optimizer;
    if optimizer.name != OptimizerName::Adamw {
        let reason = "Megatron-core is simulated with AdamW alone";
        unsupported("optimizer.name", reason, "adamw".into());
    }
    if optimizer.implementation != Implementation::Foreach && !deepspeed {
        let reason = "Megatron-core makes PyTorch's AdamW with its default implementation";
        unsupported("optimizer.implementation", reason, "foreach".into());
    }
    if scenario.adapter.is_some() {
        let reason = "adapters of Megatron-core's models are not simulated";
        unsupported("adapter", reason, serde_json::Value::Null);
    }
}

/// How the model is dealt out.
fn check_layout(scenario: &Scenario, model: &MegatronGpt, faults: &mut Faults) {
    let parallel = &scenario.parallel;
    let Parallel { tensor, pipeline, virtual_stages, expert, .. } = *parallel;
    let mut divide = |path: &str, by: u64, field: &str, size: u64| {
        if by != 0 && !size.is_multiple_of(by) {
            let message = format!("`{path}` {by} does not divide `{field}` {size} of the model");
            let arguments = [size.to_string(), "multiple of".to_owned(), by.to_string()];
            let fault = Fault::new(path, Rule::Divisible, message).arguments(arguments);
            faults.push(fault.mend(path, super::parallel::common(size, by)));
        }
    };
    for (field, size) in [
        ("num_attention_heads", model.heads),
        ("num_query_groups", model.groups),
        ("ffn_hidden_size", model.ffn),
        ("vocab_size", model.vocab),
    ] {
        divide("parallel.tensor", tensor, field, size);
    }
    if parallel.sequence {
        divide("parallel.tensor", tensor, "seq_len", scenario.workload.seq_len);
    }
    if 1 < parallel.context && model.engine.is_some_and(|engine| engine.unfused) {
        let reason = "ranks share sequences with fused attention alone";
        let fault = Fault::new("model.config.attention_backend", Rule::Unsupported, reason);
        faults.push(fault.arguments([reason.to_owned()]));
        return;
    }
    if 1 < parallel.context {
        // Each rank has a part from either end of a sequence, and exchanges it for heads.
        let ranks = tensor.saturating_mul(parallel.context);
        let parts = ranks.saturating_mul(2);
        divide("parallel.context", parts, "seq_len", scenario.workload.seq_len);
        divide("parallel.context", ranks, "num_attention_heads", model.heads);
        divide("parallel.context", ranks, "num_query_groups", model.groups);
    }
    let chunks = pipeline.saturating_mul(virtual_stages);
    let path = if 1 < virtual_stages { "parallel.virtual_stages" } else { "parallel.pipeline" };
    if model.end_layers == [None; 2] {
        let slots = model.layers() + u64::from(model.split_embedding) + u64::from(model.split_loss);
        divide(path, chunks, "num_layers", slots);
    }
    if let Some(mixture) = &model.mixture {
        divide("parallel.expert", expert, "num_moe_experts", mixture.experts);
    }
    check_ends(parallel, model, faults);
    check_conflicts(scenario, model, faults);
}

/// Stages that get so many layers, and the others that share the rest evenly
/// (`get_transformer_layer_offset`).
fn check_ends(parallel: &Parallel, model: &MegatronGpt, faults: &mut Faults) {
    let ends: Vec<u64> = model.end_layers.iter().flatten().copied().collect();
    if ends.is_empty() {
        return;
    }
    let key = if model.end_layers[0].is_some() { "first" } else { "last" };
    let path = format!("model.config.num_layers_in_{key}_pipeline_stage");
    let middle = parallel.pipeline.saturating_sub(ends.len() as u64);
    let rest = model.layers.checked_sub(ends.iter().sum());
    let message = match rest {
        _ if 1 < parallel.virtual_stages || model.split_embedding || model.split_loss => {
            "uneven stages are simulated without virtual stages, and count neither embedding nor loss"
        }
        Some(rest) if 0 < middle && rest.is_multiple_of(middle) && middle <= rest => return,
        _ => "the other stages share the rest of the layers evenly, and there must be some",
    };
    faults.push(Fault::new(path, Rule::Conflict, message));
}

fn check_conflicts(scenario: &Scenario, model: &MegatronGpt, faults: &mut Faults) {
    let parallel = &scenario.parallel;
    let mut conflict = |path: &str, message: &str, mend: serde_json::Value| {
        faults.push(Fault::new(path, Rule::Conflict, message).mend(path, mend));
    };
    if parallel.sequence && parallel.tensor == 1 {
        let message = "sequence parallelism shares the sequence among tensor-parallel ranks, and \
                       there is one";
        conflict("parallel.sequence", message, false.into());
    }
    if 1 < parallel.virtual_stages && parallel.pipeline == 1 {
        let message = "the interleaved schedule needs several pipeline stages";
        conflict("parallel.virtual_stages", message, 1.into());
    }
    let micro_batches = scenario.workload.grad_accum;
    if 1 < parallel.virtual_stages && !micro_batches.is_multiple_of(parallel.pipeline.max(1)) {
        let message = format!(
            "the interleaved schedule takes a multiple of `parallel.pipeline` {} micro-batches",
            parallel.pipeline
        );
        let mend = micro_batches.next_multiple_of(parallel.pipeline.max(1));
        conflict("workload.grad_accum", &message, mend.into());
    }
    if 1 < parallel.expert && model.mixture.is_none() {
        let message = "expert parallelism shares experts, and the model has none";
        conflict("parallel.expert", message, 1.into());
    }
    let data = parallel
        .data
        .filter(|data| !matches!(data, DataParallel::Ddp | DataParallel::DistributedOptimizer));
    if model.embedding_norm && data != Some(DataParallel::Zero1) {
        let message =
            "a norm after the embedding is Megatron-DeepSpeed's (`parallel.data = \"zero1\"`)";
        conflict("model.config.embed_layernorm", message, false.into());
    }
    if data == Some(DataParallel::Zero1) {
        check_deepspeed(scenario, model, faults);
    } else if let Some(data) = data {
        let message =
            format!("Megatron-core's replicas share in other ways than `{}`", data.word());
        conflict("parallel.data", &message, "distributed_optimizer".into());
    }
    if model.mixture.is_some() {
        check_mixture(scenario, faults);
    }
}

/// Megatron-DeepSpeed has Megatron's local layers, one chunk a stage, and no other way to share.
fn check_deepspeed(scenario: &Scenario, model: &MegatronGpt, faults: &mut Faults) {
    let parallel = &scenario.parallel;
    let refused = [
        (model.engine.is_some(), "model.config.transformer_impl"),
        (model.mixture.is_some(), "model.config.num_moe_experts"),
        (parallel.sequence, "parallel.sequence"),
        (1 < parallel.virtual_stages, "parallel.virtual_stages"),
        (parallel.zero.offload_optimizer, "parallel.zero.offload_optimizer"),
        (parallel.zero.overlap_comm == Some(true), "parallel.zero.overlap_comm"),
    ];
    for (_, path) in refused.into_iter().filter(|(set, _)| *set) {
        let reason = "under DeepSpeed's pipeline engine Megatron is simulated without it";
        let fault = Fault::new(path, Rule::Unsupported, reason);
        faults.push(fault.arguments([reason.to_owned()]));
    }
}

/// Experts are shared among ranks that are replicas of the rest.
fn check_mixture(scenario: &Scenario, faults: &mut Faults) {
    let Parallel { tensor, pipeline, expert, .. } = scenario.parallel;
    if 1 < tensor {
        let reason = "experts together with tensor parallelism are not simulated";
        let path = "parallel.tensor";
        let fault = Fault::new(path, Rule::Unsupported, reason);
        faults.push(fault.arguments([reason.to_owned()]).mend(path, 1));
    }
    let ranks = tensor.saturating_mul(pipeline).saturating_mul(expert).max(1);
    if !scenario.hardware.count.is_multiple_of(ranks) {
        let path = "parallel.expert";
        let message = "the ranks that share experts are replicas of the rest, and there are not \
                       as many replicas, or a multiple";
        faults.push(Fault::new(path, Rule::Divisible, message).mend(path, 1));
    }
}
