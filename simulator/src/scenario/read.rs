//! Text in TOML or JSON becomes a scenario document, or the list of everything wrong with it.

use serde_json::{Map, Value};

use super::ValidScenario;
use super::document::Table;
use super::limits;
use super::parallel::parallel_table;
use super::unique::Unique;
use super::validate::validate;
use super::words::Word;
use crate::catalog::Catalog;
use crate::wire::parallel::Parallel;
use crate::wire::scenario::{
    Adapter, AdapterKind, BaseFormat, Checkpointing, Hardware, Model, Optimizer, Precision,
    SCENARIO_VERSION, Stack, Workload,
};
use crate::wire::{Fault, Faults, ModelKind, Rule, Scenario};

/// How a scenario is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML 1.0.
    Toml,
    /// JSON.
    Json,
}

/// Reads a scenario document.
///
/// # Errors
///
/// Every fault at once, with its path; a text that is not TOML or JSON at all has only that one.
pub fn read(text: &str, format: Format) -> Result<Scenario, Faults> {
    from_value(&parse(text, format)?)
}

/// Reads a scenario from a parsed document.
///
/// # Errors
///
/// Every fault at once, with its path.
pub fn from_value(document: &Value) -> Result<Scenario, Faults> {
    let (scenario, faults) = draft(document)?;
    if faults.is_empty() { Ok(scenario) } else { Err(faults) }
}

/// Reads a text and checks every rule: what [`read`] and [`validate`] find, in one answer.
///
/// # Errors
///
/// Every fault at once, with its path.
pub fn read_valid(text: &str, format: Format, catalog: &Catalog) -> Result<ValidScenario, Faults> {
    check(&parse(text, format)?, catalog)
}

/// As [`read_valid`], for a parsed document.
///
/// # Errors
///
/// Every fault at once, with its path.
pub fn check(document: &Value, catalog: &Catalog) -> Result<ValidScenario, Faults> {
    let (scenario, mut faults) = draft(document)?;
    if faults.is_empty() {
        return validate(&scenario, catalog);
    }
    if let Err(Faults(broken)) = validate(&scenario, catalog) {
        // That the stand-in for an unread id is unknown is no news.
        let is_unread = |fault: &Fault| match fault.path.as_str() {
            "model.id" => matches!(&scenario.model, Model::Catalog { id } if id == UNREAD),
            "hardware.gpu" => scenario.hardware.gpu == UNREAD,
            _ => false,
        };
        faults.0.extend(broken.into_iter().filter(|fault| !is_unread(fault)));
    }
    Err(faults)
}

/// The id in a [`draft`] of what could not be read.
const UNREAD: &str = "";

/// The workload in a draft of one that could not be read.
const UNREAD_WORKLOAD: Workload =
    Workload { micro_batch: 1, seq_len: 1, target_len: 0, grad_accum: 1 };

/// The scenario as far as it can be read, and what could not be. Stand-ins fill the gaps: the
/// smallest numbers and the leanest choices, so that a rule which the draft breaks is broken
/// whatever was meant.
fn draft(document: &Value) -> Result<(Scenario, Faults), Faults> {
    let mut faults = Faults::default();
    let Some(mut root) = Table::root(document, &mut faults) else { return Err(faults) };
    let version = version(&mut root)?;
    let name = root.text("name", &mut faults).map(String::from);
    let model = root.required_table("model", &mut faults);
    let model = model.and_then(|table| model_table(table, &mut faults));
    let hardware = root.required_table("hardware", &mut faults);
    let hardware = hardware.map(|table| hardware_table(table, &mut faults));
    let parallel = root.table("parallel", &mut faults);
    let parallel =
        parallel.map_or_else(Parallel::default, |table| parallel_table(table, &mut faults));
    let workload = root.required_table("workload", &mut faults);
    let workload = workload.map(|table| workload_table(table, &mut faults));
    let precision = root.word_or("precision", Precision::WORDS, Precision::Bf16, &mut faults);
    let optimizer = root.table("optimizer", &mut faults);
    let optimizer = optimizer.map(|table| optimizer_table(table, &mut faults));
    let checkpointing = Checkpointing::WORDS;
    let checkpointing =
        root.word_or("checkpointing", checkpointing, Checkpointing::None, &mut faults);
    let adapter = root.table("adapter", &mut faults);
    let adapter = adapter.and_then(|table| adapter_table(table, &mut faults));
    let stack = root.table("stack", &mut faults).map(|table| stack_table(table, &mut faults));
    root.finish(&mut faults);
    let scenario = Scenario {
        version,
        name,
        model: model.unwrap_or(Model::Catalog { id: UNREAD.to_owned() }),
        hardware: hardware.unwrap_or(Hardware {
            gpu: UNREAD.to_owned(),
            count: 1,
            already_used_bytes: 0,
            process_cap_bytes: None,
        }),
        parallel,
        workload: workload.unwrap_or(UNREAD_WORKLOAD),
        precision: precision.unwrap_or(Precision::Bf16),
        optimizer: optimizer.unwrap_or_default(),
        checkpointing: checkpointing.unwrap_or(Checkpointing::None),
        adapter,
        stack: stack.unwrap_or_default(),
    };
    Ok((scenario, faults))
}

/// Reads the text as a document without looking at its fields.
fn parse(text: &str, format: Format) -> Result<Value, Fault> {
    match format {
        Format::Json => parse_json(text),
        Format::Toml => toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| {
                1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count()
            });
            let message = format!("this is not TOML: {} at line {line}", error.message());
            Fault::new("", Rule::Syntax, message)
        }),
    }
}

/// Reads JSON in which no table repeats a field, for those who read no TOML and so need not carry
/// its parser.
///
/// # Errors
///
/// What is no JSON, and a field that stands twice, with its place in the text.
pub fn parse_json(text: &str) -> Result<Value, Fault> {
    serde_json::from_slice(text.as_bytes())
        .map(|Unique(document)| document)
        .map_err(|error| Fault::new("", Rule::Syntax, format!("this is not JSON: {error}")))
}

/// The version comes first: a newer document may differ in everything else.
fn version(root: &mut Table<'_>) -> Result<u64, Faults> {
    let mut faults = Faults::default();
    let supported = SCENARIO_VERSION;
    let Some(version) = root.required_integer("version", 0..=u64::MAX, &mut faults) else {
        for fault in &mut faults.0 {
            *fault = fault.clone().mend("version", supported);
        }
        return Err(faults);
    };
    if version == supported {
        return Ok(version);
    }
    let message = if supported < version {
        format!(
            "this scenario is of version {version}, and this program reads up to {supported}: \
             it was saved by a newer Tidemark, so update this one"
        )
    } else {
        format!("there is no version {version}; the current one is {supported}")
    };
    let fault = Fault::new("version", Rule::Version, message)
        .arguments([version.to_string(), supported.to_string()]);
    Err(fault.mend("version", supported).into())
}

fn model_table(mut table: Table<'_>, faults: &mut Faults) -> Option<Model> {
    let inline = ["kind", "config"].map(|key| table.value(key).is_some()).contains(&true);
    let id = table.text("id", faults).map(String::from);
    let model = if inline {
        let both = table.value("id").is_some();
        if both {
            let path = table.path("id");
            let message = "give either a catalog `id` or `kind` and `config`, not both";
            faults.push(Fault::new(path, Rule::Conflict, message));
        }
        let kind = table.required_word("kind", ModelKind::WORDS, faults);
        let config = table.required_table("config", faults).map(|table| portable(table.fields()));
        kind.zip(config).map(|(kind, config)| Model::Inline { kind, config })
    } else {
        if table.value("id").is_none() {
            let path = table.path("id");
            let message = "`model.id` is required: a catalog id, or else `kind` and `config`";
            faults.push(Fault::new(path, Rule::Missing, message));
        }
        id.map(|id| Model::Catalog { id })
    };
    table.finish(faults);
    model
}

/// Fields whose null turns off what an absent field has.
const OFF_BY_NULL: [&str; 4] =
    ["sliding_window", "q_lora_rank", "attn_logit_softcapping", "final_logit_softcapping"];

/// A `config.json` in a form that TOML can hold too: a null is an absent field, except that those
/// which turn off what absent fields have become 0.
pub(crate) fn portable(config: &Map<String, Value>) -> Map<String, Value> {
    let kept = config.iter().filter_map(|(key, value)| match value {
        Value::Null if OFF_BY_NULL.contains(&key.as_str()) => Some((key.clone(), Value::from(0))),
        other => Some((key.clone(), without_nulls(other)?)),
    });
    kept.collect()
}

fn without_nulls(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Null => return None,
        Value::Object(fields) => {
            let kept = fields.iter().filter_map(|(key, v)| Some((key.clone(), without_nulls(v)?)));
            Value::Object(kept.collect())
        }
        Value::Array(items) => items.iter().filter_map(without_nulls).collect(),
        other => other.clone(),
    })
}

fn hardware_table(mut table: Table<'_>, faults: &mut Faults) -> Hardware {
    let gpu = table.required_text("gpu", faults).unwrap_or(UNREAD).to_owned();
    let count = table.integer_or("count", limits::GPU_COUNT, 1, faults).unwrap_or(1);
    let already_used_bytes = table.bytes("already_used_bytes", faults).unwrap_or(0);
    let process_cap_bytes = table.bytes("process_cap_bytes", faults);
    table.finish(faults);
    Hardware { gpu, count, already_used_bytes, process_cap_bytes }
}

fn workload_table(mut table: Table<'_>, faults: &mut Faults) -> Workload {
    let micro_batch = table.required_integer("micro_batch", limits::MICRO_BATCH, faults);
    // Whether it is required is the model's to say (`validate`).
    let seq_len = table.integer_or("seq_len", 0..=*limits::SEQ_LEN.end(), 0, faults);
    let target_len = table.integer_or("target_len", 0..=*limits::SEQ_LEN.end(), 0, faults);
    let grad_accum = table.integer_or("grad_accum", limits::GRAD_ACCUM, 1, faults);
    table.finish(faults);
    Workload {
        micro_batch: micro_batch.unwrap_or(1),
        seq_len: seq_len.unwrap_or(1),
        target_len: target_len.unwrap_or(0),
        grad_accum: grad_accum.unwrap_or(1),
    }
}

fn optimizer_table(mut table: Table<'_>, faults: &mut Faults) -> Optimizer {
    let defaults = Optimizer::default();
    let name = table.word_or("name", Word::WORDS, defaults.name, faults);
    let default = name.unwrap_or(defaults.name).implementations()[0];
    let implementation = table.word_or("implementation", Word::WORDS, default, faults);
    let momentum = match table.value("momentum") {
        // Whether a rule that could not be read has a momentum is not known.
        Some(_) => {
            table.number_or("momentum", limits::MOMENTUM, 0.0, faults).filter(|_| name.is_some())
        }
        None => None,
    };
    let centered = table.flag_or("centered", defaults.centered, faults);
    let in_backward = table.flag_or("in_backward", defaults.in_backward, faults);
    let clip_grad_norm = table.flag_or("clip_grad_norm", defaults.clip_grad_norm, faults);
    let set_to_none = table.flag_or("set_to_none", defaults.set_to_none, faults);
    table.finish(faults);
    Optimizer {
        name: name.unwrap_or(defaults.name),
        implementation: implementation.unwrap_or(defaults.implementation),
        momentum,
        // As with a momentum.
        centered: centered.unwrap_or(defaults.centered) && name.is_some(),
        in_backward: in_backward.unwrap_or(defaults.in_backward),
        clip_grad_norm: clip_grad_norm.unwrap_or(defaults.clip_grad_norm),
        set_to_none: set_to_none.unwrap_or(defaults.set_to_none),
    }
}

fn adapter_table(mut table: Table<'_>, faults: &mut Faults) -> Option<Adapter> {
    let kind = table.word_or("kind", Word::WORDS, AdapterKind::Lora, faults);
    let rank = table.required_integer("rank", limits::ADAPTER_RANK, faults);
    let targets = table.required_texts("targets", faults);
    let dropout = table.number_or("dropout", limits::DROPOUT, 0.0, faults);
    let autocast = table.flag_or("autocast", true, faults);
    let base = table.word_or("base", Word::WORDS, BaseFormat::Whole, faults);
    let base_head = table.flag_or("base_head", false, faults);
    let stable_embedding = table.flag_or("stable_embedding", false, faults)?;
    table.finish(faults);
    let (kind, rank, targets, dropout) = (kind?, rank?, targets?, dropout?);
    let (autocast, base, base_head) = (autocast?, base?, base_head?);
    Some(Adapter { kind, rank, targets, dropout, autocast, base, base_head, stable_embedding })
}

fn stack_table(mut table: Table<'_>, faults: &mut Faults) -> Stack {
    let defaults = Stack::default();
    let framework = table.word_or("framework", Word::WORDS, defaults.framework, faults);
    let attention = table.word_or("attention", Word::WORDS, defaults.attention, faults);
    let loss = table.word_or("loss", Word::WORDS, defaults.loss, faults);
    let tf32 = table.flag_or("tf32", defaults.tf32, faults);
    let channels_last = table.flag_or("channels_last", defaults.channels_last, faults);
    let activation_offload =
        table.flag_or("activation_offload", defaults.activation_offload, faults);
    let compile = table.flag_or("compile", defaults.compile, faults);
    let alloc_conf = table.text("alloc_conf", faults).unwrap_or_default();
    table.finish(faults);
    Stack {
        framework: framework.unwrap_or(defaults.framework),
        attention: attention.unwrap_or(defaults.attention),
        loss: loss.unwrap_or(defaults.loss),
        tf32: tf32.unwrap_or(defaults.tf32),
        channels_last: channels_last.unwrap_or(defaults.channels_last),
        activation_offload: activation_offload.unwrap_or(defaults.activation_offload),
        compile: compile.unwrap_or(defaults.compile),
        alloc_conf: String::from(alloc_conf),
    }
}
