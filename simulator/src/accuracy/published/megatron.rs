//! Published runs of Megatron-core as scenarios: what the row says, and the defaults of
//! `megatron/training/arguments.py` where it is silent.

use serde_json::{Map, Value, json};

use crate::catalog::Catalog;
use crate::wire::parallel::{DataParallel, Parallel};
use crate::wire::published::PublishedRun;
use crate::wire::scenario::{
    Checkpointing, Framework, Hardware, Model, Optimizer, Precision, SCENARIO_VERSION, Stack,
    Workload,
};
use crate::wire::{ModelKind, Scenario};

use super::scenario::{Expressed, Reasons, workload};
use super::words;

/// Whether a row's software is Megatron-core.
pub(super) fn is_megatron(run: &PublishedRun) -> bool {
    ["Megatron-LM core", "Megatron-Bridge"].iter().any(|name| run.framework.starts_with(name))
}

/// The scenario of a run, and the pipeline stages that its figure is the highest of.
///
/// # Errors
///
/// All reasons why there is none.
pub(super) fn express(run: &PublishedRun, catalog: &Catalog) -> Result<Expressed, Vec<String>> {
    let mut reasons = words::refusals(run);
    let mut keep = Reasons(&mut reasons);
    let gpu = keep.of(words::gpu(&run.gpu, catalog));
    let config = keep.of(config(run));
    let parallel = keep.of(parallel(run));
    let workload = keep.of(workload(run));
    let checkpointing = keep.of(checkpointing(run));
    let count = keep.of(run.n_gpus.ok_or_else(|| "the number of GPUs is not stated".to_owned()));
    keep.of(software(run));
    let scenario = (|| {
        let workload: Workload = workload?;
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
            parallel: parallel?,
            workload,
            precision: Precision::Bf16,
            optimizer: Optimizer { clip_grad_norm: true, ..Optimizer::default() },
            checkpointing: checkpointing?,
            adapter: None,
            stack: Stack { framework: Framework::MegatronCore, ..Stack::default() },
        })
    })();
    match scenario {
        Some(scenario) if reasons.is_empty() => {
            let remark =
                "Megatron-core 0.19.2 is simulated, with the rules of Transformer Engine 2.11";
            let stages = stages(run, scenario.parallel.pipeline);
            Ok(Expressed { scenario, stages, remark: Some(remark.to_owned()) })
        }
        _ => Err(reasons),
    }
}

/// Of which stages the row's figure is the highest: `last rank`, or all.
fn stages(run: &PublishedRun, pipeline: u64) -> Vec<u64> {
    if run.memory_kind.contains("last rank") { vec![pipeline - 1] } else { (0..pipeline).collect() }
}

/// Software that this stack's program has.
fn software(run: &PublishedRun) -> Result<(), String> {
    let precision = run.precision.as_deref().unwrap_or("not stated");
    let narrow = words::is_quantised(&precision.to_lowercase());
    if narrow || !precision.contains("bf16") {
        return Err(format!(
            "the number format \"{precision}\" of this stack is not simulated yet"
        ));
    }
    let optimizer = run.optimizer.as_deref().unwrap_or("not stated");
    if !optimizer.to_lowercase().contains("adam") {
        return Err(format!("the optimizer \"{optimizer}\" of this stack is not simulated yet"));
    }
    if said(run, "cross-entropy-fusion-impl") == Some("native") {
        return Err("Megatron's native fused cross-entropy is not simulated yet".to_owned());
    }
    Ok(())
}

fn checkpointing(run: &PublishedRun) -> Result<Checkpointing, String> {
    match run.recompute.as_deref() {
        Some("none") => Ok(Checkpointing::None),
        Some("selective [core_attn]") => Ok(Checkpointing::Selective),
        Some(words) => Err(format!("the recomputation \"{words}\" is not simulated yet")),
        None => Err("the row does not say whether activations are recomputed".to_owned()),
    }
}

fn parallel(run: &PublishedRun) -> Result<Parallel, String> {
    let degree = |key| words::degree(run, key).max(1);
    let [tensor, pipeline, context, expert] = ["tp", "pp", "cp", "ep"].map(degree);
    if words::is_sharded(run) {
        return Err("Megatron's own FSDP is not simulated yet".to_owned());
    }
    let sequence = run.parallel.get("sp").and_then(Value::as_bool);
    let sequence = sequence.ok_or("the row does not say whether the sequence is shared")?;
    let shares = run.optimizer.as_deref().is_some_and(|words| words.contains("istributed"));
    let data = if shares { DataParallel::DistributedOptimizer } else { DataParallel::Ddp };
    Ok(Parallel {
        tensor,
        sequence: sequence && 1 < tensor,
        pipeline,
        virtual_stages: degree("vpp"),
        expert,
        context,
        data: Some(data),
        ..Parallel::default()
    })
}

/// A value of `other`, where it lists a launcher's arguments: `key=value; …`.
fn said<'a>(run: &'a PublishedRun, key: &str) -> Option<&'a str> {
    let pairs = run.other.split("; ").filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// Arguments of `TransformerConfig` and `GPTModel`.
///
/// # Source
///
/// Defaults of `megatron/training/arguments.py` (megatron-core 0.19.2): learned positions, LayerNorm,
/// biases, dropout of 0.1, fusions on, rows of the vocabulary padded to a multiple of 128 for each
/// tensor-parallel rank; the launcher of a source where it differs.
fn config(run: &PublishedRun) -> Result<Map<String, Value>, String> {
    let model = &run.model;
    let text = |key: &str| model.get(key).and_then(Value::as_str).unwrap_or("");
    if ["experts", "dense_layers", "hybrid-layer-pattern", "encoder_layers"]
        .iter()
        .any(|key| model.get(*key).is_some_and(|value| !value.is_null()))
        || ["deepseek", "bert", "Nemotron", "t5_"].iter().any(|name| text("name").contains(name))
    {
        return Err(format!("models like \"{}\" are not simulated with this stack", text("name")));
    }
    let size = |key: &str| {
        let value = model.get(key).and_then(Value::as_u64);
        value.ok_or_else(|| format!("model.{key} is not stated as a number"))
    };
    let tensor = words::degree(run, "tp").max(1);
    let mut config = Map::new();
    let mut set = |key: &str, value: Value| config.insert(key.to_owned(), value);
    set("num_layers", size("layers")?.into());
    set("hidden_size", size("hidden")?.into());
    set("num_attention_heads", size("heads")?.into());
    set("num_query_groups", size("kv_heads")?.into());
    set("ffn_hidden_size", size("ffn")?.into());
    set("vocab_size", size("vocab")?.next_multiple_of(128 * tensor).into());
    set("max_sequence_length", run.seq_len.unwrap_or(1).into());
    set("transformer_impl", "transformer_engine".into());
    set("share_embeddings_and_output_weights", (!unties(run)).into());
    match text("mlp") {
        "swiglu" => {
            set("gated_linear_unit", true.into());
            set("activation_func", "silu".into());
        }
        "squared-relu" => {
            set("activation_func", "squared_relu".into());
        }
        "gelu 2-matrix" => {}
        other => return Err(format!("the MLP \"{other}\" is not simulated with this stack")),
    }
    let launched = launched(run);
    config.extend(launched.as_object().cloned().unwrap_or_default());
    Ok(config)
}

fn unties(run: &PublishedRun) -> bool {
    run.other.contains("untied embeddings")
        || run.model.get("tied_embeddings").and_then(Value::as_bool) == Some(false)
}

/// What the launcher of a row's source, or Megatron's own, adds.
fn launched(run: &PublishedRun) -> Value {
    if run.source.starts_with("MooreThreads/SimuMax") {
        // `simu_tools/megatron_scripts/scripts/run_pretrain_llama3.sh`.
        return json!({
            "position_embedding_type": "rope", "apply_rope_fusion": true,
            "normalization": "RMSNorm", "add_bias_linear": false,
            "hidden_dropout": 0.0, "attention_dropout": 0.0,
            "bias_activation_fusion": true, "gradient_accumulation_fusion": true,
            "cross_entropy_loss_fusion": run.id.ends_with("-cef"), "cross_entropy_fusion_impl": "te",
            "create_attention_mask_in_dataloader": false,
        });
    }
    let flag = |key: &str| said(run, key) == Some("True");
    let number = |key: &str| said(run, key).and_then(|text| text.parse::<f64>().ok());
    let rope = said(run, "position-embedding-type") == Some("rope");
    let bias = !flag("disable-bias-linear");
    let plain_gelu = run.model.get("mlp").and_then(Value::as_str) == Some("gelu 2-matrix");
    json!({
        "attention_backend": said(run, "attention-backend").unwrap_or("auto"),
        "position_embedding_type": if rope { "rope" } else { "learned_absolute" },
        "apply_rope_fusion": rope && !flag("no-rope-fusion"),
        "rotary_percent": number("rotary-percent").unwrap_or(1.0),
        "add_bias_linear": bias,
        "hidden_dropout": number("hidden-dropout").unwrap_or(0.1),
        "attention_dropout": number("attention-dropout").unwrap_or(0.1),
        "bias_activation_fusion": bias && plain_gelu,
        "bias_dropout_fusion": true,
        "gradient_accumulation_fusion": !flag("no-gradient-accumulation-fusion"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::published::read_run;

    const ROW: &str = r#"{"id": "a", "source": "NVIDIA/Megatron-LM", "kind": "train",
        "gpu": "H100-80GB SXM", "n_gpus": 8, "framework": "Megatron-LM core", "micro_batch": 1,
        "global_batch": 8, "seq_len": 64, "parallel": {"dp": 1, "tp": 2, "pp": 4, "sp": true},
        "model": {"name": "gpt3", "layers": 4, "hidden": 64, "heads": 4, "kv_heads": 4, "ffn": 256,
            "vocab": 1000, "mlp": "gelu 2-matrix", "tied_embeddings": true},
        "precision": "bf16", "optimizer": "adam distributed", "recompute": "none",
        "other": "no-gradient-accumulation-fusion=True; position-embedding-type=rope",
        "measured": {"peak_mem_gib": 1.0, "mem_kind": "peak on last rank"},
        "memory_metric": "allocated_peak"}"#;

    fn of(row: &str) -> Result<Expressed, Vec<String>> {
        express(&read_run(row).expect("a row"), &Catalog::builtin())
    }

    #[test]
    fn defaults_and_what_the_row_lists() {
        let Ok(expressed) = of(ROW) else { panic!("the row is expressed") };
        let Model::Inline { config, .. } = &expressed.scenario.model else { panic!("a shape") };
        let check = |key: &str, expect: Value| assert_eq!(config[key], expect, "{key}");
        check("vocab_size", 1024.into()); // a multiple of 128 for each of two ranks
        check("position_embedding_type", "rope".into());
        check("apply_rope_fusion", true.into());
        check("gradient_accumulation_fusion", false.into());
        check("hidden_dropout", 0.1.into());
        assert_eq!(expressed.scenario.parallel.data, Some(DataParallel::DistributedOptimizer));
    }

    #[test]
    fn stages_that_the_figure_is_the_highest_of() {
        let stages = |row: &str| of(row).map(|expressed| expressed.stages).ok();
        assert_eq!(stages(ROW), Some(vec![3]));
        assert_eq!(stages(&ROW.replace("peak on last rank", "max over ranks")), {
            Some(vec![0, 1, 2, 3])
        });
        assert_eq!(stages(&ROW.replace("\"sp\": true", "\"sp\": null")), None);
        assert_eq!(stages(&ROW.replace("\"bf16\"", "\"bf16 + fp8\"")), None);
    }
}
