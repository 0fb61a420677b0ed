//! A published run as a scenario.
//!
//! Trainers of transformers are expressed (they run its classes, clip gradients by default, and
//! use PyTorch's optimizers); all else is refused with the reason.

use serde_json::{Map, Value};

use crate::catalog::Catalog;
use crate::wire::parallel::Parallel;
use crate::wire::published::PublishedRun;
use crate::wire::scenario::{
    Checkpointing, Hardware, Implementation, Loss, Model, Optimizer, OptimizerName,
    SCENARIO_VERSION, Stack, Workload,
};
use crate::wire::{ModelKind, Scenario};

use super::words;

/// A run that can be predicted.
pub(super) struct Expressed {
    pub(super) scenario: Scenario,
    /// What the scenario says differently from the row.
    pub(super) remark: Option<String>,
}

/// The scenario of a run.
///
/// # Errors
///
/// All reasons why there is none.
pub(super) fn express(run: &PublishedRun, catalog: &Catalog) -> Result<Expressed, Vec<String>> {
    let mut reasons = refusals(run);
    let mut keep = Reasons(&mut reasons);
    let gpu = keep.of(words::gpu(&run.gpu, catalog));
    let precision = keep.of(words::precision(run.precision.as_deref()));
    let optimizer = keep.of(optimizer(run));
    let checkpointing = keep.of(checkpointing(run));
    let workload = keep.of(workload(run));
    let model = keep.of(model(run, catalog));
    let scenario = (|| {
        let (precision, tf32) = precision?;
        let (model, remark) = model?;
        let scenario = Scenario {
            version: SCENARIO_VERSION,
            name: Some(run.id.clone()),
            model,
            hardware: Hardware {
                gpu: gpu?,
                count: 1,
                already_used_bytes: 0,
                process_cap_bytes: None,
            },
            parallel: Parallel::default(),
            workload: workload?,
            precision,
            optimizer: optimizer?,
            checkpointing: checkpointing?,
            adapter: None,
            stack: Stack { loss: loss(&run.framework), tf32, ..Stack::default() },
        };
        Some(Expressed { scenario, remark })
    })();
    match scenario {
        Some(expressed) if reasons.is_empty() => Ok(expressed),
        _ => Err(reasons),
    }
}

/// Collects the errors of several results.
struct Reasons<'a>(&'a mut Vec<String>);

impl Reasons<'_> {
    fn of<T>(&mut self, result: Result<T, String>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(reason) => {
                self.0.push(reason);
                None
            }
        }
    }
}

/// What no scenario says, whatever the other fields are.
fn refusals(run: &PublishedRun) -> Vec<String> {
    let mut reasons = Vec::new();
    if run.kind == "infer" {
        reasons.push("inference is not simulated yet".to_owned());
    }
    match run.n_gpus {
        Some(1) => {}
        Some(n) => reasons.push(format!("parallel layouts are not simulated yet ({n} GPUs)")),
        None => reasons.push("the number of GPUs is not stated".to_owned()),
    }
    if !words::is_transformers(&run.framework) {
        reasons.push(format!("the stack \"{}\" is not simulated yet", run.framework));
    }
    if run.measured.oom {
        reasons.push("the run went out of memory: there is no peak to compare".to_owned());
    }
    reasons.extend(words::refusals(&run.other));
    reasons
}

fn optimizer(run: &PublishedRun) -> Result<Optimizer, String> {
    let words = run.optimizer.as_deref().unwrap_or("");
    let (name, implementation) = match words.to_lowercase().as_str() {
        "adamw" | "adamw_torch" | "adamw_torch (default)" => {
            (OptimizerName::Adamw, Implementation::Foreach)
        }
        "adamw_torch_fused" => (OptimizerName::Adamw, Implementation::Fused),
        "" => return Err("the optimizer is not stated".to_owned()),
        _ => return Err(format!("the optimizer \"{words}\" is not simulated yet")),
    };
    // `max_grad_norm` is 1 in transformers' Trainer unless it is set to 0.
    Ok(Optimizer { name, implementation, clip_grad_norm: true, ..Optimizer::default() })
}

fn checkpointing(run: &PublishedRun) -> Result<Checkpointing, String> {
    match run.recompute.as_deref() {
        None => Err("the row does not say whether activations are recomputed".to_owned()),
        Some("none") => Ok(Checkpointing::None),
        Some(words) if words.starts_with("full (HF gradient checkpointing") || words == "full" => {
            Ok(Checkpointing::Full)
        }
        Some(words) => Err(format!("the recomputation \"{words}\" is not simulated yet")),
    }
}

fn workload(run: &PublishedRun) -> Result<Workload, String> {
    let micro_batch = run.micro_batch.and_then(words::whole).filter(|batch| 0 < *batch);
    let micro_batch = micro_batch.ok_or("the micro-batch is no whole number of sequences")?;
    let seq_len = run.seq_len.ok_or("the sequence length is not stated")?;
    let grad_accum = match run.global_batch {
        Some(global) if global % micro_batch == 0 => global / micro_batch,
        Some(global) => {
            return Err(format!("a global batch of {global} is no multiple of {micro_batch}"));
        }
        None => words::number_after(&run.other, "gradient accumulation")
            .ok_or("gradient accumulation is not stated")?,
    };
    Ok(Workload { micro_batch, seq_len, target_len: 0, grad_accum })
}

/// transformers moved from shifted logits to padded labels during 2025; releases of fms-hf-tuning
/// from 3 on use that one.
fn loss(framework: &str) -> Loss {
    match words::number_after(framework, "fms-hf-tuning") {
        Some(major) if 3 <= major => Loss::Transformers5,
        _ => Loss::Transformers4,
    }
}

fn model(run: &PublishedRun, catalog: &Catalog) -> Result<(Model, Option<String>), String> {
    let name = run.model.get("name").and_then(Value::as_str).unwrap_or("");
    let (kind, remark) = words::kind(name, &run.model)?;
    let shape = |key: &str| {
        let value = run.model.get(key).and_then(Value::as_u64);
        value.ok_or_else(|| format!("model.{key} is not stated as a number"))
    };
    let heads = shape("heads")?;
    let positions = run.seq_len.unwrap_or(0).max(4096);
    let mut config = Map::new();
    let mut set = |key: &str, value: Value| config.insert(key.to_owned(), value);
    if kind == ModelKind::Gpt2 {
        set("n_embd", shape("hidden")?.into());
        set("n_layer", shape("layers")?.into());
        set("n_head", heads.into());
        set("n_inner", shape("ffn")?.into());
        set("n_positions", run.seq_len.unwrap_or(1024).max(1024).into());
    } else {
        set("hidden_size", shape("hidden")?.into());
        set("num_hidden_layers", shape("layers")?.into());
        set("num_attention_heads", heads.into());
        set("num_key_value_heads", shape("kv_heads").unwrap_or(heads).into());
        set("intermediate_size", shape("ffn")?.into());
        set("max_position_embeddings", positions.into());
        if let Ok(head_dim) = shape("head_dim") {
            set("head_dim", head_dim.into());
        }
        if let Some(tied) = tied(run, name, catalog) {
            set("tie_word_embeddings", tied.into());
        }
    }
    set("vocab_size", shape("vocab")?.into());
    Ok((Model::Inline { kind, config }, remark))
}

/// Whether the output matrix is the input one: what the row says, else what the catalog's model of
/// that name has.
fn tied(run: &PublishedRun, name: &str, catalog: &Catalog) -> Option<bool> {
    let stated = run.model.get("tied_embeddings").and_then(Value::as_bool);
    stated.or_else(|| catalog.model(name)?.config.get("tie_word_embeddings")?.as_bool())
}
