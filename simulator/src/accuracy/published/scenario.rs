//! A published run as a scenario: what the row says, what its tool does where the row is silent, and a
//! remark for all that is simulated differently.

use crate::catalog::Catalog;
use crate::wire::parallel::{DataParallel, Parallel};
use crate::wire::published::PublishedRun;
use crate::wire::scenario::{
    Adapter, AdapterKind, Attention, BaseFormat, Checkpointing, Hardware, Implementation,
    Optimizer, OptimizerName, Precision, SCENARIO_VERSION, Stack, Workload,
};
use crate::wire::{ModelKind, Scenario};

use super::deepspeed;
use super::megatron;
use super::model::{Described, described, projections};
use super::tools::{Sharding, Tool, tool};
use super::words;

/// A run that can be predicted.
pub(super) struct Expressed {
    pub(super) scenario: Scenario,
    /// The pipeline stages that the row's figures are the highest of.
    pub(super) stages: Vec<u64>,
    /// What the scenario says differently from the row.
    pub(super) remark: Option<String>,
}

/// The scenario of a run.
///
/// # Errors
///
/// All reasons why there is none.
pub(super) fn express(run: &PublishedRun, catalog: &Catalog) -> Result<Expressed, Vec<String>> {
    if megatron::is_megatron(run) {
        return megatron::express(run, catalog);
    }
    if deepspeed::is_deepspeed(run) {
        return deepspeed::express(run, catalog);
    }
    let mut reasons = words::refusals(run);
    let mut remarks = Vec::new();
    let mut keep = Reasons(&mut reasons);
    let tool = keep.of(tool(&run.framework));
    let gpu = keep.of(words::gpu(&run.gpu, catalog));
    let precision = keep.of(words::precision(run.precision.as_deref()));
    let checkpointing = keep.of(checkpointing(run));
    let workload = keep.of(workload(run));
    let described = keep.of(described(run, catalog, tool.is_some_and(|tool| tool.unties)));
    let optimizer = keep.of(tool.map_or(Err(String::new()), |tool| optimizer(run, tool)));
    let parallel = keep.of(tool.map_or(Err(String::new()), |tool| parallel(run, tool)));
    let kind = described.as_ref().map_or(ModelKind::Llama, |described| described.kind);
    let adapter = keep.of(tool.map_or(Ok(None), |tool| adapter(run, kind, tool, &mut remarks)));
    reasons.retain(|reason| !reason.is_empty());
    let scenario = (|| {
        let tool = tool?;
        let (mut precision, tf32) = precision?;
        let Described { model, remark, .. } = described?;
        let adapter = adapter?;
        let (optimizer, mut parallel) = (optimizer?, parallel?);
        if tool.loads_narrow
            && precision == Precision::AmpBf16
            && (adapter.is_some() || run.n_gpus == Some(1))
        {
            precision = Precision::Bf16;
            parallel.fsdp.mixed_precision = false;
            remarks
                .push("weights are loaded in bf16, and autocast over them is left out".to_owned());
        }
        remarks.extend(remark.into_iter().chain([tool.remark]).map(str::to_owned));
        remarks.extend(differences(run, tool, &parallel));
        let loss = tool.loss(run, adapter.is_some());
        let flash = run.other.contains("flash attention");
        let attention = if flash { Attention::Sdpa } else { tool.attention };
        let scenario = Scenario {
            version: SCENARIO_VERSION,
            name: Some(run.id.clone()),
            model,
            hardware: Hardware {
                gpu: gpu?,
                count: run.n_gpus?,
                already_used_bytes: 0,
                process_cap_bytes: None,
            },
            parallel,
            workload: workload?,
            precision,
            optimizer,
            checkpointing: checkpointing?,
            adapter,
            stack: Stack { attention, loss, tf32, ..Stack::default() },
        };
        remarks.retain(|remark| !remark.is_empty());
        let remark = (!remarks.is_empty()).then(|| remarks.join("; "));
        Some(Expressed { scenario, stages: vec![0], remark })
    })();
    match scenario {
        Some(expressed) if reasons.is_empty() => Ok(expressed),
        _ => Err(reasons),
    }
}

/// Collects the errors of several results.
pub(super) struct Reasons<'a>(pub(super) &'a mut Vec<String>);

impl Reasons<'_> {
    pub(super) fn of<T>(&mut self, result: Result<T, String>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(reason) => {
                self.0.push(reason);
                None
            }
        }
    }
}

/// What of the row, and not of its tool, is simulated differently.
fn differences(run: &PublishedRun, tool: &Tool, parallel: &Parallel) -> Vec<String> {
    let optimizer = run.optimizer.as_deref().unwrap_or("").to_lowercase();
    let shards = parallel.data == Some(DataParallel::Fsdp2);
    let first = shards && tool.sharding == Sharding::Fsdp1;
    let table = [
        (first, "FullyShardedDataParallel is simulated as fully_shard"),
        (
            optimizer.contains("paged"),
            "the paged AdamW is simulated as AdamW, its states on the device",
        ),
        (optimizer.contains("adafactor"), "transformers' Adafactor is simulated as PyTorch's"),
        (run.other.contains("packed"), "packed sequences are simulated as one sequence each"),
        (run.other.contains("variable length"), "the longest sample is taken as the stated limit"),
    ];
    let said = table.into_iter().filter(|(holds, _)| *holds);
    said.map(|(_, remark)| remark.to_owned()).collect()
}

/// The update rule and its implementation.
fn optimizer(run: &PublishedRun, tool: &Tool) -> Result<Optimizer, String> {
    let words = run.optimizer.as_deref().unwrap_or("");
    let text = words.to_lowercase();
    let text = text.split(" (").next().unwrap_or("");
    let (name, implementation) = match text {
        "adamw" => (OptimizerName::Adamw, tool.adamw),
        "adamw_torch" => (OptimizerName::Adamw, Implementation::Foreach),
        "adamw_torch_fused" => (OptimizerName::Adamw, Implementation::Fused),
        "paged_adamw_32bit" => (OptimizerName::Adamw, Implementation::Loop),
        "adamw 8-bit" => (OptimizerName::Adamw8bit, Implementation::Loop),
        "adafactor" => (OptimizerName::Adafactor, Implementation::Loop),
        "sgd" => (OptimizerName::Sgd, Implementation::Foreach),
        "" => return Err("the optimizer is not stated".to_owned()),
        _ => return Err(format!("the optimizer \"{words}\" is not simulated yet")),
    };
    Ok(Optimizer { name, implementation, clip_grad_norm: tool.clips, ..Optimizer::default() })
}

fn checkpointing(run: &PublishedRun) -> Result<Checkpointing, String> {
    match run.recompute.as_deref() {
        None => Err("the row does not say whether activations are recomputed".to_owned()),
        Some("none") => Ok(Checkpointing::None),
        Some("full" | "full (Block)") => Ok(Checkpointing::Full),
        Some(words) if words.starts_with("full (HF gradient checkpointing") => {
            Ok(Checkpointing::Full)
        }
        Some(words) => Err(format!("the recomputation \"{words}\" is not simulated yet")),
    }
}

/// Sequences of one GPU.
pub(super) fn workload(run: &PublishedRun) -> Result<Workload, String> {
    let micro_batch = run.micro_batch.and_then(words::whole).filter(|batch| 0 < *batch);
    let micro_batch = micro_batch.ok_or("the micro-batch is no whole number of sequences")?;
    let seq_len = run.seq_len.ok_or("the sequence length is not stated")?;
    let at_once = micro_batch * words::degree(run, "dp");
    let grad_accum = match run.global_batch {
        Some(global) if global % at_once == 0 => global / at_once,
        Some(global) => {
            return Err(format!("a global batch of {global} is no multiple of {at_once}"));
        }
        None => words::number_after(&run.other, "gradient accumulation")
            .ok_or("gradient accumulation is not stated")?,
    };
    Ok(Workload { micro_batch, seq_len, target_len: 0, grad_accum })
}

/// The layout: replicas that average their gradients or share their weights.
fn parallel(run: &PublishedRun, tool: &Tool) -> Result<Parallel, String> {
    const DEGREES: [(&str, &str); 4] = [
        ("tp", "tensor parallelism of this stack"),
        ("pp", "pipeline parallelism"),
        ("cp", "context parallelism"),
        ("ep", "expert parallelism"),
    ];
    let gpus = run.n_gpus.ok_or("the number of GPUs is not stated")?;
    for (key, what) in DEGREES {
        if 1 < words::degree(run, key) {
            return Err(format!("{what} is not simulated yet"));
        }
    }
    if gpus == 1 {
        return Ok(Parallel::default());
    }
    let zero = words::degree(run, "zero");
    match (words::is_sharded(run), zero) {
        (true, _) => {
            let data = Some(DataParallel::Fsdp2);
            Ok(Parallel { data, fsdp: tool.fsdp(run), ..Parallel::default() })
        }
        (false, 0 | 1) if run.parallel.get("zero").is_none_or(|zero| zero.as_u64() != Some(1)) => {
            Ok(Parallel { data: Some(DataParallel::Ddp), ..Parallel::default() })
        }
        _ => Err(format!("ZeRO stage {zero} is not simulated yet")),
    }
}

/// The adapter that the row, or its tool by default, has.
fn adapter(
    run: &PublishedRun,
    kind: ModelKind,
    tool: &Tool,
    remarks: &mut Vec<String>,
) -> Result<Option<Adapter>, String> {
    let Some(said) = words::lora(run) else { return Ok(None) };
    let roles: Vec<&str> = match &said.roles {
        Some(roles) => roles.iter().map(String::as_str).collect(),
        None => tool.lora.targets.to_vec(),
    };
    if roles.contains(&"head") {
        remarks.push("the adapter of the output projection is left out".to_owned());
    }
    let mut targets: Vec<String> = Vec::new();
    for name in roles.iter().flat_map(|role| projections(kind, role)) {
        if targets.iter().all(|target| target != name) {
            targets.push((*name).to_owned());
        }
    }
    let rank = said.rank.unwrap_or(tool.lora.rank);
    if rank == 0 || targets.is_empty() {
        return Err("the row and its tool do not say rank and modules of the adapter".to_owned());
    }
    if said.rank.is_none() || said.roles.is_none() {
        remarks.push("rank or modules of the adapter are its tool's defaults".to_owned());
    }
    // `fully_shard` wants one element type.
    let (dropout, autocast) = (tool.lora.dropout, tool.lora.wide && !words::is_sharded(run));
    let kind = AdapterKind::Lora;
    let base = match words::base(run.precision.as_deref()) {
        BaseFormat::Nf4 if tool.lora.nested => BaseFormat::Nf4Double,
        base => base,
    };
    let base_head = tool.unties && base != BaseFormat::Whole;
    // Since October 2024 (`finetune/lora.py`, #1770).
    let stable_embedding = base_head && !run.framework.contains("PyTorch 2.1");
    Ok(Some(Adapter { kind, rank, targets, dropout, autocast, base, base_head, stable_embedding }))
}
