//! The `case` of a ground-truth capture becomes a scenario.
//!
//! Such a case is what `measure/case.py` was started with; docs/formats.md lists its fields. The
//! program builds the class from `model.config` with the class's own defaults, without a cache.

mod megatron;
mod parallel;

use serde_json::Value;

use crate::scenario::{Table, Word, limits, portable};
use crate::wire::scenario::{
    Adapter, AdapterKind, Attention, BaseFormat, Checkpointing, Framework, Hardware,
    Implementation, Loss, Model, Optimizer, OptimizerName, Precision, SCENARIO_VERSION, Stack,
    Workload,
};
use crate::wire::{Fault, Faults, ModelKind, Rule, Scenario};

/// Fields that ask for what no scenario says yet, with the reason.
const UNSUPPORTED: [(&str, &str); 5] = [
    ("recompute", "Megatron's recomputation is not simulated yet"),
    ("num_micro_batches", "Megatron's schedules are not simulated yet"),
    ("stage", "pipeline stages are not simulated yet"),
    ("expert_load", "mixtures of experts are not simulated yet"),
    ("use_cache", "training with a KV cache is not simulated yet"),
];

/// Fields that say nothing about the step's memory and kernels.
const IGNORED: [&str; 7] =
    ["id", "full", "warm_steps", "time", "time_steps", "cudnn_benchmark", "rank"];

/// Pixels a side of the images of a torchvision model.
const DEFAULT_IMAGE: u64 = 224;

/// Reads the `case` object of a capture that ran on the GPU of this catalog id or alias.
///
/// # Errors
///
/// Everything that a scenario cannot express, as `unsupported` with the reason; and every field
/// of a wrong type.
pub fn capture_case(case: &Value, gpu: &str) -> Result<Scenario, Faults> {
    let mut faults = Faults::default();
    let Value::Object(fields) = case else {
        let fault = Fault::new("case", Rule::Type, "expected the table `case` of a capture");
        return Err(fault.into());
    };
    let mut table = Table::new("case".to_owned(), fields);
    if megatron::is_megatron(&mut table) {
        return megatron::scenario(table, gpu, faults);
    }
    let name = table.text("id", &mut faults).map(str::to_owned);
    check_unsupported(&mut table, &mut faults);
    let model = model(&mut table, &mut faults);
    let layout = parallel::parallel(&mut table, &mut faults);
    if !faults.is_empty() {
        // Whatever else such a case says, it is in terms of another program.
        return Err(faults);
    }
    let workload = workload(&mut table, &mut faults);
    let precision = precision(&mut table, &mut faults);
    check_default_dtype(&table, model.as_ref(), precision, &mut faults);
    let optimizer = optimizer(&mut table, &mut faults);
    let checkpointing = checkpointing(&mut table, &mut faults);
    let adapter = adapter(&mut table, &mut faults);
    let stack = stack(&mut table, &mut faults);
    for (key, _) in table.unknown().filter(|(key, _)| !IGNORED.contains(&key.as_str())) {
        faults.push(unsupported(table.path(key), "a field that no scenario has"));
    }
    let scenario = (|| {
        let (count, parallel) = layout?;
        Some(Scenario {
            version: SCENARIO_VERSION,
            name,
            model: model?,
            hardware: Hardware {
                gpu: gpu.to_owned(),
                count,
                already_used_bytes: 0,
                process_cap_bytes: None,
            },
            parallel,
            workload: workload?,
            precision: precision?,
            optimizer: optimizer?,
            checkpointing: checkpointing?,
            adapter,
            stack: stack?,
        })
    })();
    match scenario {
        Some(scenario) if faults.is_empty() => Ok(scenario),
        _ => Err(faults),
    }
}

fn workload(table: &mut Table<'_>, faults: &mut Faults) -> Option<Workload> {
    let micro_batch = table.required_integer("micro_batch", limits::MICRO_BATCH, faults);
    let seq_len = table.integer_or("seq_len", 0..=*limits::SEQ_LEN.end(), 0, faults);
    let target_len = table.integer_or("target_len", 0..=*limits::SEQ_LEN.end(), 0, faults);
    let grad_accum = table.integer_or("grad_accum", limits::GRAD_ACCUM, 1, faults);
    Some(Workload {
        micro_batch: micro_batch?,
        seq_len: seq_len?,
        target_len: target_len?,
        grad_accum: grad_accum?,
    })
}

fn stack(table: &mut Table<'_>, faults: &mut Faults) -> Option<Stack> {
    let attention = unsupported_word(table, "attn", Attention::Sdpa, faults);
    let tf32 = table.flag_or("tf32", true, faults);
    // Liger's fused loss alone, without its other kernels.
    let liger = table.flag_or("liger", false, faults);
    let loss = |liger| if liger { Loss::FusedLinear } else { Loss::default() };
    let channels_last = table.flag_or("channels_last", false, faults);
    let compile = table.flag_or("compile", false, faults);
    let alloc_conf = alloc_conf(table, faults);
    Some(Stack {
        framework: Framework::Transformers,
        attention: attention?,
        alloc_conf: alloc_conf?,
        tf32: tf32?,
        channels_last: channels_last?,
        activation_offload: false,
        compile: compile?,
        loss: loss(liger?),
    })
}

fn unsupported(path: String, reason: &str) -> Fault {
    Fault::new(path, Rule::Unsupported, reason).arguments([reason.to_owned()])
}

fn check_unsupported(table: &mut Table<'_>, faults: &mut Faults) {
    for (key, reason) in UNSUPPORTED {
        let off = match table.value(key) {
            None | Some(Value::Bool(false)) => true,
            Some(Value::Object(fields)) => fields.is_empty(),
            Some(_) => false,
        };
        if !off {
            faults.push(unsupported(table.path(key), reason));
        }
    }
    if table.text("mode", faults).is_some_and(|mode| mode != "train") {
        faults.push(unsupported(table.path("mode"), "inference is not simulated yet"));
    }
}

fn model(table: &mut Table<'_>, faults: &mut Faults) -> Option<Model> {
    let mut model = table.required_table("model", faults)?;
    let Some(kind) = model.text("kind", faults) else {
        let reason = "only transformers classes are simulated (this model names no `kind`)";
        faults.push(unsupported(model.path("kind"), reason));
        return None;
    };
    let found = ModelKind::WORDS.iter().find(|(word, _)| *word == kind);
    let Some((_, kind)) = found else {
        let reason = format!("models of type `{kind}` are not simulated yet");
        faults.push(unsupported(model.path("kind"), &reason));
        return None;
    };
    let config = model.table("config", faults);
    let mut config = config.map(|config| portable(config.fields())).unwrap_or_default();
    if *kind == ModelKind::Torchvision {
        // The program makes the images, and leaves the number of classes as it is.
        let side = table.integer_or("image", limits::IMAGE_SIDE, DEFAULT_IMAGE, faults)?;
        config.insert("image_size".to_owned(), side.into());
    }
    Some(Model::Inline { kind: *kind, config })
}

/// The program builds a bf16 model under that default dtype, in which torchvision's
/// `BlockParams.from_init_params` rounds a `RegNet`'s widths: another model.
fn check_default_dtype(
    table: &Table<'_>,
    model: Option<&Model>,
    precision: Option<Precision>,
    faults: &mut Faults,
) {
    let Some(Model::Inline { kind: ModelKind::Torchvision, config }) = model else { return };
    let name = config.get("name").and_then(Value::as_str).unwrap_or_default();
    if precision == Some(Precision::Bf16) && name.starts_with("regnet") {
        let reason = "a RegNet built in bf16 has other widths, which are not simulated";
        faults.push(unsupported(table.path("precision"), reason));
    }
}

fn precision(table: &mut Table<'_>, faults: &mut Faults) -> Option<Precision> {
    let precision = unsupported_word(table, "precision", Precision::Bf16, faults)?;
    let weights = if precision == Precision::Bf16 { "bf16" } else { "fp32" };
    if let Some(given) = table.text("param_dtype", faults).filter(|given| *given != weights) {
        let reason = format!("weights in {given} under this precision are not simulated");
        faults.push(unsupported(table.path("param_dtype"), &reason));
    }
    Some(precision)
}

/// A word as in scenarios; any other is something that cannot be simulated.
fn unsupported_word<T: Word>(
    table: &mut Table<'_>,
    key: &'static str,
    default: T,
    faults: &mut Faults,
) -> Option<T> {
    if table.value(key).is_none() {
        return Some(default);
    }
    let word = table.text(key, faults)?;
    let found = T::WORDS.iter().find(|(name, _)| *name == word);
    if found.is_none() {
        faults.push(unsupported(table.path(key), &format!("`{word}` is not simulated yet")));
    }
    found.map(|(_, choice)| *choice)
}

fn checkpointing(table: &mut Table<'_>, faults: &mut Faults) -> Option<Checkpointing> {
    match table.value("ckpt") {
        Some(Value::Bool(false)) => Some(Checkpointing::None),
        _ => unsupported_word(table, "ckpt", Checkpointing::None, faults),
    }
}

/// `LoraConfig(r=…, target_modules=…, lora_alpha=16, lora_dropout=0.0)`; `None` is full
/// fine-tuning, or a fault.
fn adapter(table: &mut Table<'_>, faults: &mut Faults) -> Option<Adapter> {
    if matches!(table.value("lora"), None | Some(Value::Bool(false))) {
        return None;
    }
    let mut own = table.table("lora", faults)?;
    let rank = own.required_integer("r", limits::ADAPTER_RANK, faults);
    let targets = own.required_texts("targets", faults);
    for (key, _) in own.unknown() {
        faults.push(unsupported(own.path(key), "an option that no scenario has"));
    }
    let kind = AdapterKind::Lora;
    Some(Adapter {
        kind,
        rank: rank?,
        targets: targets?,
        dropout: 0.0,
        autocast: true,
        base: BaseFormat::Whole,
        base_head: false,
        stable_embedding: false,
    })
}

fn optimizer(table: &mut Table<'_>, faults: &mut Faults) -> Option<Optimizer> {
    let clip_grad_norm = match table.value("clip") {
        Some(Value::Number(norm)) => norm.as_f64() != Some(0.0),
        _ => table.flag_or("clip", false, faults)?,
    };
    let set_to_none = table.flag_or("set_to_none", true, faults)?;
    let Some(mut own) = table.table("optimizer", faults) else {
        let absent = table.value("optimizer").is_none();
        let optimizer = Optimizer { clip_grad_norm, set_to_none, ..Optimizer::default() };
        return absent.then_some(optimizer);
    };
    let name = unsupported_word(&mut own, "name", OptimizerName::Adamw, faults)?;
    // The program gives `fused` to AdamW alone, `momentum` to SGD alone, and `foreach` to both.
    if !matches!(
        name,
        OptimizerName::Adamw
            | OptimizerName::Sgd
            | OptimizerName::Adafactor
            | OptimizerName::Rmsprop
    ) {
        let reason = format!("the program has no `{}`", name.word());
        faults.push(unsupported(own.path("name"), &reason));
    }
    let given = matches!(name, OptimizerName::Adamw | OptimizerName::Sgd);
    let fused = own.value("fused").and_then(Value::as_bool);
    let fused = fused.filter(|_| name == OptimizerName::Adamw);
    let foreach = own.value("foreach").and_then(Value::as_bool).filter(|_| given);
    let momentum = own.number_or("momentum", limits::MOMENTUM, 0.9, faults)?;
    for (key, _) in own.unknown() {
        faults.push(unsupported(own.path(key), "an option that no scenario has"));
    }
    let implementation = match (fused, foreach) {
        (Some(true), _) => Implementation::Fused,
        (None, None) => name.implementations()[0],
        (_, Some(true)) => Implementation::Foreach,
        (_, Some(false)) | (Some(false), None) => Implementation::Loop,
    };
    let momentum = (name == OptimizerName::Sgd).then_some(momentum);
    Some(Optimizer {
        name,
        implementation,
        momentum,
        clip_grad_norm,
        set_to_none,
        ..Default::default()
    })
}

/// The allocator's settings; any other environment variable might change anything.
fn alloc_conf(table: &mut Table<'_>, faults: &mut Faults) -> Option<String> {
    let Some(mut env) = table.table("env", faults) else {
        return table.value("env").is_none().then(String::new);
    };
    let old = env.text("PYTORCH_CUDA_ALLOC_CONF", faults);
    let new = env.text("PYTORCH_ALLOC_CONF", faults);
    for (key, _) in env.unknown() {
        faults.push(unsupported(env.path(key), "the variable's effect is not simulated"));
    }
    Some(new.or(old).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests;
