//! Published runs of Megatron-DeepSpeed as scenarios.

use serde_json::{Map, Value, json};

use crate::catalog::Catalog;
use crate::wire::parallel::{DataParallel, Parallel, ReduceDtype, Zero};
use crate::wire::published::PublishedRun;
use crate::wire::scenario::{
    Checkpointing, Framework, Hardware, Implementation, Model, Optimizer, Precision,
    SCENARIO_VERSION, Stack, Workload,
};
use crate::wire::{ModelKind, Scenario};

use super::scenario::{Expressed, Reasons, workload};
use super::words;

/// Rows of the embedding with `--pad-vocab-size-to 250880`
/// (`train/tr11-176B-ml/setup-test-n2.slurm` of bigscience).
const PADDED_VOCAB: u64 = 250_880;

/// Micro-batches that are simulated, for each stage: the hundreds after them repeat the same requests.
const ROUNDS: u64 = 4;
/// The fewest.
const LEAST: u64 = 16;

/// Whether a row's software is Megatron-DeepSpeed.
pub(super) fn is_deepspeed(run: &PublishedRun) -> bool {
    run.framework.starts_with("Megatron-DeepSpeed")
}

/// The scenario of a run.
///
/// # Errors
///
/// All reasons why there is none.
pub(super) fn express(run: &PublishedRun, catalog: &Catalog) -> Result<Expressed, Vec<String>> {
    let mut reasons = words::refusals(run);
    let mut keep = Reasons(&mut reasons);
    let gpu = keep.of(words::gpu(&run.gpu, catalog));
    let config = keep.of(config(run));
    let precision = keep.of(precision(run));
    let parallel = keep.of(parallel(run));
    let workload = keep.of(workload(run));
    let checkpointing = keep.of(checkpointing(run));
    let optimizer = keep.of(optimizer(run));
    let count = keep.of(run.n_gpus.ok_or_else(|| "the number of GPUs is not stated".to_owned()));
    let scenario = (|| {
        let (precision, sums_wide) = precision?;
        let mut parallel: Parallel = parallel?;
        let mut workload: Workload = workload?;
        workload.grad_accum = workload.grad_accum.min((ROUNDS * parallel.pipeline).max(LEAST));
        parallel.zero.grad_accum_dtype = sums_wide.then_some(ReduceDtype::Fp32);
        Some(Scenario {
            version: SCENARIO_VERSION,
            name: Some(run.id.clone()),
            model: Model::Inline { kind: ModelKind::MegatronGpt, config: config? },
            hardware: Hardware {
                gpu: gpu?,
                count: count?,
                already_used_bytes: 0,
                process_cap_bytes: None,
            },
            parallel,
            workload,
            precision,
            optimizer: optimizer?,
            checkpointing: checkpointing?,
            adapter: None,
            stack: Stack { framework: Framework::MegatronCore, ..Stack::default() },
        })
    })();
    match scenario {
        Some(scenario) if reasons.is_empty() => {
            let stages = stages(run, scenario.parallel.pipeline);
            let remark = "layers of Megatron-core 0.19.2 under DeepSpeed's pipeline engine stand in for \
                          those of 2022; 16 micro-batches, or four a stage, are simulated";
            Ok(Expressed { scenario, stages, remark: Some(remark.to_owned()) })
        }
        _ => Err(reasons),
    }
}

/// The figure is the highest of the first and the last node, or of all.
fn stages(run: &PublishedRun, pipeline: u64) -> Vec<u64> {
    if run.memory_kind.contains("first/last node") && 1 < pipeline {
        vec![0, pipeline - 1]
    } else {
        (0..pipeline).collect()
    }
}

/// Number formats, and whether gradients are added up in fp32 (`BF16_Optimizer`).
fn precision(run: &PublishedRun) -> Result<(Precision, bool), String> {
    match run.precision.as_deref() {
        Some("fp16") => Ok((Precision::Fp16, false)),
        Some("bf16") => Ok((Precision::Bf16, false)),
        Some("bf16 with fp32 grad accumulation") => Ok((Precision::Bf16, true)),
        words => {
            let words = words.unwrap_or("not stated");
            Err(format!("the number format \"{words}\" of this stack is not simulated yet"))
        }
    }
}

fn checkpointing(run: &PublishedRun) -> Result<Checkpointing, String> {
    match run.recompute.as_deref() {
        Some("none") => Ok(Checkpointing::None),
        Some(words) if words.starts_with("full") => Ok(Checkpointing::Full),
        Some(words) => Err(format!("the recomputation \"{words}\" is not simulated yet")),
        None => Err("the row does not say whether activations are recomputed".to_owned()),
    }
}

fn optimizer(run: &PublishedRun) -> Result<Optimizer, String> {
    let words = run.optimizer.as_deref().unwrap_or("not stated");
    if !words.to_lowercase().contains("adam") {
        return Err(format!("the optimizer \"{words}\" of this stack is not simulated yet"));
    }
    // Apex's `FusedAdam`, Megatron's default.
    let implementation = Implementation::Fused;
    Ok(Optimizer { implementation, clip_grad_norm: true, ..Optimizer::default() })
}

fn parallel(run: &PublishedRun) -> Result<Parallel, String> {
    if words::degree(run, "zero") != 1 || !run.parallel.contains_key("zero") {
        return Err("Megatron under DeepSpeed is simulated with ZeRO stage 1 alone".to_owned());
    }
    let degree = |key| words::degree(run, key).max(1);
    Ok(Parallel {
        tensor: degree("tp"),
        pipeline: degree("pp"),
        context: degree("cp"),
        virtual_stages: degree("vpp"),
        data: Some(DataParallel::Zero1),
        // Stage 1 switched it off (`_configure_zero_optimizer`, deepspeed 0.5).
        zero: Zero { contiguous_gradients: false, ..Zero::default() },
        ..Parallel::default()
    })
}

/// Arguments of the model.
///
/// # Source
///
/// bigscience: `train/tr11-176B-ml/setup-test-n2.slurm` (`ALiBi`, a norm after the embedding, the padded
/// vocabulary) for the rows of the 176B model's prequel; `experiments/tr3m-1B3.md` and
/// `train/tr3-1B3-baseline/tr3m-1B3-emb-norm-pile.slurm` for the 1.3B ones (learned positions). Defaults of
/// `megatron/arguments.py` otherwise: dropout of 0.1, fused kernels, tied embeddings.
fn config(run: &PublishedRun) -> Result<Map<String, Value>, String> {
    let model = &run.model;
    let size = |key: &str| {
        let value = model.get(key).and_then(Value::as_u64);
        value.ok_or_else(|| format!("model.{key} is not stated as a number"))
    };
    let prequel = run.source.contains("chronicles-prequel");
    let small = run.source.contains("tr3m-1B3");
    if !prequel && !small {
        return Err("the row does not say how positions enter this stack's model".to_owned());
    }
    let tensor = words::degree(run, "tp").max(1);
    let vocab = match model.get("vocab").and_then(Value::as_u64) {
        Some(vocab) => vocab.next_multiple_of(128 * tensor),
        None if prequel => PADDED_VOCAB,
        None => return Err("model.vocab is not stated as a number".to_owned()),
    };
    let layers = size("layers")?;
    let slots = run.other.contains("type transformer|embedding");
    let mut config = json!({
        "num_layers": layers,
        "hidden_size": size("hidden")?,
        "num_attention_heads": size("heads")?,
        "ffn_hidden_size": size("ffn")?,
        "vocab_size": vocab,
        "max_sequence_length": run.seq_len.unwrap_or(1),
        "position_embedding_type": if prequel { "none" } else { "learned_absolute" },
        "embed_layernorm": true,
        "share_embeddings_and_output_weights": true,
        "masked_softmax_fusion": true,
        "bias_activation_fusion": true,
        "bias_dropout_fusion": true,
        "account_for_embedding_in_pipeline_split": slots,
        "account_for_loss_in_pipeline_split": slots,
    });
    // `partition_balanced` (deepspeed 0.5, `runtime/utils.py`): as many as needed a stage, the rest last.
    let pipeline = words::degree(run, "pp").max(1);
    if !slots && !layers.is_multiple_of(pipeline) {
        let last = layers.saturating_sub(layers.div_ceil(pipeline) * (pipeline - 1));
        config["num_layers_in_last_pipeline_stage"] = last.into();
    }
    Ok(config.as_object().cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::published::read_run;

    /// A row of so many layers in four stages.
    fn row(layers: u64, other: &str, precision: &str) -> Expressed {
        let row = json!({
            "id": "a", "source": "bigscience train/tr11-176B-ml/chronicles-prequel.md",
            "kind": "train", "gpu": "A100-80GB SXM", "n_gpus": 8, "framework": "Megatron-DeepSpeed",
            "parallel": {"dp": 1, "tp": 2, "pp": 4, "zero": 1}, "micro_batch": 1,
            "global_batch": 512, "seq_len": 64, "precision": precision, "optimizer": "Adam",
            "recompute": "full (DeepSpeed)", "other": other,
            "model": {"layers": layers, "hidden": 64, "heads": 4, "ffn": 256, "vocab": "about 250k"},
            "measured": {"mem_kind": "max over first/last node"}, "memory_metric": "device_peak"
        });
        let run = read_run(&row.to_string()).expect("a row");
        express(&run, &Catalog::builtin()).unwrap_or_else(|reasons| panic!("{reasons:?}"))
    }

    #[test]
    fn layers_as_deepspeed_deals_them() {
        let last = |expressed: &Expressed| {
            let Model::Inline { config, .. } = &expressed.scenario.model else { return None };
            config.get("num_layers_in_last_pipeline_stage").and_then(Value::as_u64)
        };
        assert_eq!(last(&row(8, "", "fp16")), None);
        assert_eq!(last(&row(10, "", "fp16")), Some(1));
        assert_eq!(last(&row(10, "by type transformer|embedding", "fp16")), None);
    }

    #[test]
    fn formats_stages_and_micro_batches() {
        let wide = row(8, "", "bf16 with fp32 grad accumulation");
        assert_eq!(wide.scenario.parallel.zero.grad_accum_dtype, Some(ReduceDtype::Fp32));
        assert_eq!((wide.stages, wide.scenario.workload.grad_accum), (vec![0, 3], 16));
        let narrow = row(8, "", "fp16").scenario;
        assert_eq!((narrow.precision, narrow.parallel.zero.grad_accum_dtype), {
            (Precision::Fp16, None)
        });
    }
}
