//! Every rule that a scenario must keep, checked at once.
//!
//! Out of memory is an answer, never a fault. A fault is a question that no real process could
//! ask (heads that do not divide), or one that this program cannot answer yet (`unsupported`).

use core::ops::RangeInclusive;

use super::config;
use super::document::{choice_fault, missing, range_fault};
use super::families::{Architecture, Data, Family, Positions, adapter_parameters};
use super::limits;
use super::megatron::check_framework;
use super::parallel::check_parallel;
use super::words::Word;
use super::{ValidScenario, notes, portable};
use crate::allocator::{ProcessLimit, Settings};
use crate::catalog::{Catalog, nearest};
use crate::units::MIB;
use crate::wire::model::ModelCard;
use crate::wire::scenario::{
    Adapter, Attention, Checkpointing, Hardware, Loss, Model, OptimizerName, Precision,
    SCENARIO_VERSION, Workload,
};
use crate::wire::{Fault, Faults, GpuProfile, Rule, Scenario};

/// Checks a scenario and looks its ids up.
///
/// # Errors
///
/// Every broken rule at once, each with its path and, where one is known, a value that mends it.
pub fn validate(scenario: &Scenario, catalog: &Catalog) -> Result<ValidScenario, Faults> {
    let mut faults = Faults::default();
    if scenario.version != SCENARIO_VERSION {
        let message = format!("version {} is not {SCENARIO_VERSION}", scenario.version);
        faults.push(Fault::new("version", Rule::Version, message));
    }
    let model = resolve_model(&scenario.model, catalog, &mut faults);
    let model = model.and_then(|model| {
        let architecture = super::megatron::translate(scenario, model.architecture, &mut faults)?;
        Some(ResolvedModel { architecture, ..model })
    });
    let gpu = resolve_gpu(&scenario.hardware, catalog, &mut faults);
    check_ranges(scenario, &mut faults);
    check_optimizer(scenario, &mut faults);
    check_alloc_conf(scenario, &mut faults);
    let architecture = model.as_ref().map(|model| &model.architecture);
    super::savings::check_in_backward(scenario, &mut faults);
    super::savings::check_offload(scenario, architecture, &mut faults);
    super::attention::check(scenario, architecture, gpu, &mut faults);
    super::compile::check(scenario, architecture, &mut faults);
    check_parallel(scenario, architecture, &mut faults);
    check_framework(scenario, architecture, &mut faults);
    if let Some(gpu) = gpu {
        check_memory(&scenario.hardware, gpu, &mut faults);
    }
    if let Some(model) = &model {
        check_seq_len(model.architecture.family(), scenario, &mut faults);
        check_positions(model.architecture.family(), &scenario.workload, &mut faults);
        check_size(model.architecture.family(), scenario, gpu, &mut faults);
        check_layout(&model.architecture, scenario, &mut faults);
        if let Some(adapter) = &scenario.adapter {
            check_targets(model.architecture.family(), adapter, &mut faults);
        }
    }
    match (model, gpu) {
        (Some(model), Some(gpu)) if faults.is_empty() => {
            let mut document = scenario.clone();
            document.hardware.gpu.clone_from(&gpu.id);
            match (&mut document.model, model.card) {
                (Model::Catalog { id }, Some(card)) => id.clone_from(&card.id),
                (Model::Inline { config, .. }, _) => *config = portable(config),
                (Model::Catalog { .. }, None) => {}
            }
            let outside_pool = catalog.outside_pool(gpu);
            let notes = notes::notes(&document, &model, gpu, &outside_pool);
            Ok(ValidScenario {
                model_name: model.name(scenario),
                scenario: document,
                architecture: model.architecture,
                gpu: gpu.clone(),
                outside_pool,
                notes,
            })
        }
        _ => Err(faults),
    }
}

/// The shape of a model, whatever else a scenario says; `None` when the model is at fault.
pub fn architecture(model: &Model, catalog: &Catalog) -> Option<Architecture> {
    resolve_model(model, catalog, &mut Faults::default()).map(|model| model.architecture)
}

/// A model with its shape known.
pub(super) struct ResolvedModel<'a> {
    pub(super) architecture: Architecture,
    /// Its catalog entry, when it has one.
    pub(super) card: Option<&'a ModelCard>,
}

impl ResolvedModel<'_> {
    fn name(&self, scenario: &Scenario) -> String {
        match (self.card, &scenario.name) {
            (Some(card), _) => card.name.clone(),
            (None, Some(name)) => name.clone(),
            (None, None) => {
                let millions = self.architecture.family().parameters() / 1_000_000;
                format!("{} with {millions} M parameters", self.architecture.family().class())
            }
        }
    }
}

fn resolve_model<'a>(
    model: &Model,
    catalog: &'a Catalog,
    faults: &mut Faults,
) -> Option<ResolvedModel<'a>> {
    match model {
        Model::Catalog { id } => {
            let Some(card) = catalog.model(id) else {
                faults.push(catalog.unknown_model("model.id", id));
                return None;
            };
            let architecture = config::architecture(card.kind, &card.config, "model.id", faults)?;
            Some(ResolvedModel { architecture, card: Some(card) })
        }
        Model::Inline { kind, config } => {
            let architecture = config::architecture(*kind, config, "model.config", faults)?;
            Some(ResolvedModel { architecture, card: None })
        }
    }
}

fn resolve_gpu<'a>(
    hardware: &Hardware,
    catalog: &'a Catalog,
    faults: &mut Faults,
) -> Option<&'a GpuProfile> {
    let found = catalog.gpu(&hardware.gpu);
    if found.is_none() {
        faults.push(catalog.unknown_gpu("hardware.gpu", &hardware.gpu));
    }
    found
}

fn check_ranges(scenario: &Scenario, faults: &mut Faults) {
    let mut check = |path: &str, value: u64, range: RangeInclusive<u64>| {
        if !range.contains(&value) {
            let (low, high) = (range.start().to_string(), range.end().to_string());
            let fault = range_fault(path, &value.to_string(), &low, &high);
            faults.push(fault.mend(path, value.clamp(*range.start(), *range.end())));
        }
    };
    check("hardware.count", scenario.hardware.count, limits::GPU_COUNT);
    let workload = &scenario.workload;
    check("workload.micro_batch", workload.micro_batch, limits::MICRO_BATCH);
    check("workload.seq_len", workload.seq_len, 0..=*limits::SEQ_LEN.end());
    check("workload.target_len", workload.target_len, 0..=*limits::SEQ_LEN.end());
    check("workload.grad_accum", workload.grad_accum, limits::GRAD_ACCUM);
    let Some(adapter) = &scenario.adapter else { return };
    check("adapter.rank", adapter.rank, limits::ADAPTER_RANK);
    if !limits::DROPOUT.contains(&adapter.dropout) {
        let path = "adapter.dropout";
        let found = adapter.dropout.to_string();
        faults.push(range_fault(path, &found, "0", "1 (1 itself left out)").mend(path, 0.0));
    }
}

/// peft refuses an adapter that finds none of its modules; here every name must be one.
fn check_targets(family: &dyn Family, adapter: &Adapter, faults: &mut Faults) {
    let mut names: Vec<&str> = Vec::new();
    for projection in family.projections() {
        if !names.contains(&projection.name) {
            names.push(projection.name);
        }
    }
    let path = "adapter.targets";
    if names.is_empty() {
        let message = format!("adapters of {} are not simulated yet", family.class());
        let fault = Fault::new(path, Rule::Unsupported, message);
        faults.push(fault.arguments([family.class().to_owned()]));
    } else if adapter.targets.is_empty() {
        let message = format!("name the modules to adapt: some of {}", names.join(", "));
        faults.push(Fault::new(path, Rule::Missing, message));
    } else {
        for target in adapter.targets.iter().filter(|target| !names.contains(&target.as_str())) {
            // The words mend a text, and this is a list.
            let mut fault = choice_fault(path.to_owned(), target, &names);
            fault.mends.clear();
            if let Some(near) = nearest(target, names.iter().copied()) {
                let mended = |t: &String| if t == target { near.to_owned() } else { t.clone() };
                fault = fault.mend(path, adapter.targets.iter().map(mended).collect::<Vec<_>>());
            }
            faults.push(fault);
        }
    }
}

fn check_optimizer(scenario: &Scenario, faults: &mut Faults) {
    let optimizer = &scenario.optimizer;
    let has = optimizer.name.implementations();
    if !has.contains(&optimizer.implementation) {
        let path = "optimizer.implementation";
        let [name, word] = [optimizer.name.word(), optimizer.implementation.word()];
        let message = format!("`{name}` has no implementation `{word}`");
        let fault = Fault::new(path, Rule::Conflict, message);
        let fault = fault.arguments([name.to_owned(), word.to_owned()]);
        faults.push(has.iter().fold(fault, |fault, other| fault.mend(path, other.word())));
    }
    if optimizer.centered && optimizer.name != OptimizerName::Rmsprop {
        let path = "optimizer.centered";
        let message = "only `rmsprop` can be centered";
        let fault = Fault::new(path, Rule::Conflict, message);
        faults.push(fault.mend(path, false).mend("optimizer.name", "rmsprop"));
    }
    let path = "optimizer.momentum";
    let Some(momentum) = optimizer.momentum else { return };
    if !optimizer.name.has_momentum() {
        let message = "only `sgd` and `rmsprop` have a momentum that can be chosen; what the others \
                       keep does not depend on their betas";
        let fault = Fault::new(path, Rule::Conflict, message);
        faults.push(fault.mend(path, serde_json::Value::Null).mend("optimizer.name", "sgd"));
    }
    if !limits::MOMENTUM.contains(&momentum) {
        let fault = range_fault(path, &momentum.to_string(), "0", "1 (1 itself left out)");
        faults.push(fault.mend(path, 0.9));
    }
}

/// The allocator itself says what it would refuse.
fn check_alloc_conf(scenario: &Scenario, faults: &mut Faults) {
    let path = "stack.alloc_conf";
    match Settings::parse(&scenario.stack.alloc_conf) {
        Ok(settings) => {
            let capped = settings.process_limit != ProcessLimit::None;
            if capped && scenario.hardware.process_cap_bytes.is_some() {
                let message = "both `stack.alloc_conf` and `hardware.process_cap_bytes` cap the \
                               process: give one";
                faults.push(Fault::new(path, Rule::Conflict, message));
            }
        }
        Err(error) => {
            let fault = Fault::new(path, Rule::Choice, error.to_string());
            faults.push(fault.arguments([error.key, error.value, error.rule.to_owned()]));
        }
    }
}

fn check_memory(hardware: &Hardware, gpu: &GpuProfile, faults: &mut Faults) {
    let card = gpu.usable_mib * MIB;
    let mut check = |path: &str, bytes: u64, lowest: u64| {
        if bytes < lowest || card < bytes {
            let fault =
                range_fault(path, &bytes.to_string(), &lowest.to_string(), &card.to_string());
            let mut fault = fault.mend(path, bytes.clamp(lowest, card));
            fault.message = format!("{} bytes, all the memory of {}", fault.message, gpu.name);
            faults.push(fault);
        }
    };
    check("hardware.already_used_bytes", hardware.already_used_bytes, 0);
    if let Some(cap) = hardware.process_cap_bytes {
        check("hardware.process_cap_bytes", cap, 1);
    }
}

/// Sequences have a length, images have none.
fn check_seq_len(family: &dyn Family, scenario: &Scenario, faults: &mut Faults) {
    let path = "workload.seq_len";
    let workload = &scenario.workload;
    match (family.data(), workload.seq_len) {
        // The last token has no next one: of one alone nothing is left to sum.
        (Data::Tokens, 1) if scenario.stack.loss == Loss::Narrow => {
            let most = limits::SEQ_LEN.end().to_string();
            faults.push(super::document::range_fault(path, "1", "2", &most).mend(path, 2));
        }
        (Data::Tokens, 0) => faults.push(missing(path.to_owned())),
        (Data::Images(_), given) if 0 < given => {
            let message = format!("{} reads images, which have no length", family.class());
            faults.push(Fault::new(path, Rule::Conflict, message).mend(path, 0));
        }
        _ => {}
    }
    if !family.has_decoder() && 0 < workload.target_len {
        let path = "workload.target_len";
        let message = format!("{} has labels as long as its input", family.class());
        faults.push(Fault::new(path, Rule::Conflict, message).mend(path, 0));
    }
}

/// Where positions are looked up in a table a longer sequence is an index out of range.
fn check_positions(family: &dyn Family, workload: &Workload, faults: &mut Faults) {
    let Positions::Table(rows) = family.positions() else { return };
    if rows < workload.seq_len {
        let path = "workload.seq_len";
        let message = format!(
            "the model has a table of {} positions, and {} tokens would index beyond it",
            rows, workload.seq_len
        );
        let fault = Fault::new(path, Rule::Conflict, message)
            .arguments([workload.seq_len.to_string(), rows.to_string()])
            .mend(path, rows);
        faults.push(fault);
    }
}

/// Whether SDPA surely runs as a fused kernel.
fn is_fused(family: &dyn Family, scenario: &Scenario, gpu: Option<&GpuProfile>) -> bool {
    let capability = gpu.and_then(|gpu| gpu.compute_capability.as_deref());
    let major = capability.and_then(|text| text.split('.').next()?.parse::<u32>().ok());
    scenario.stack.attention != Attention::Eager
        && scenario.precision != Precision::Fp32
        && family.flash_head_dim()
        && major.is_none_or(|major| 8 <= major)
}

/// The channels-last order is simulated for torchvision's models, and checkpointing is not: they have no
/// `gradient_checkpointing_enable`.
fn check_layout(architecture: &Architecture, scenario: &Scenario, faults: &mut Faults) {
    let is_vision = matches!(architecture, Architecture::Vision(_));
    let class = architecture.family().class();
    if scenario.stack.channels_last && !is_vision {
        let path = "stack.channels_last";
        let message = format!("{class} in the channels-last order is not simulated");
        let fault = Fault::new(path, Rule::Unsupported, message).arguments([class.to_owned()]);
        faults.push(fault.mend(path, false));
    }
    if scenario.checkpointing != Checkpointing::None && is_vision {
        let path = "checkpointing";
        let message = format!("{class} has no gradient checkpointing");
        let fault = Fault::new(path, Rule::Unsupported, message).arguments([class.to_owned()]);
        faults.push(fault.mend(path, "none"));
    }
}

/// Bounds the chunks of a loss that goes over few tokens at a time.
fn check_chunks(scenario: &Scenario, faults: &mut Faults) {
    let Workload { micro_batch, seq_len, grad_accum, .. } = scenario.workload;
    let chunks = match scenario.stack.loss {
        Loss::Chunked => seq_len.div_ceil(limits::LOSS_CHUNK),
        Loss::Narrow => micro_batch.saturating_mul(seq_len).div_ceil(limits::LOSS_CHUNK),
        _ => return,
    };
    if limits::LOSS_CHUNKS_MAX < chunks.saturating_mul(grad_accum) {
        let path = "stack.loss";
        let message = format!(
            "{chunks} chunks of {} tokens × {grad_accum} micro-batches are more events than one answer \
             may take",
            limits::LOSS_CHUNK
        );
        faults.push(Fault::new(path, Rule::Range, message).mend(path, "transformers5"));
    }
}

/// Bounds what the simulation must count and do.
fn check_size(
    family: &dyn Family,
    scenario: &Scenario,
    gpu: Option<&GpuProfile>,
    faults: &mut Faults,
) {
    let Workload { micro_batch, seq_len, grad_accum, .. } = scenario.workload;
    let longest = seq_len.max(scenario.workload.label_len());
    // A rank has the layers of its stage.
    let layers = (family.layers() / scenario.parallel.pipeline.max(1)).max(1);
    let passes = layers.saturating_mul(grad_accum);
    if limits::LAYER_PASSES_MAX < passes {
        let path = "workload.grad_accum";
        let most = (limits::LAYER_PASSES_MAX / layers).max(1);
        let message = format!(
            "{layers} layers × {grad_accum} micro-batches are more events than one answer may take"
        );
        let fault = Fault::new(path, Rule::Range, message);
        let fault = fault.arguments([grad_accum.to_string(), "1".to_owned(), most.to_string()]);
        faults.push(fault.mend(path, most));
    }
    check_chunks(scenario, faults);
    let added = scenario.adapter.as_ref().map_or(0, |adapter| adapter_parameters(family, adapter));
    if limits::PARAMETERS_MAX < family.parameters().saturating_add(added) {
        let message = "more parameters than any machine holds (2^46)";
        faults.push(Fault::new("model", Rule::Range, message));
    }
    let [batch, seq, passes, accum, heads] =
        [micro_batch, family.tokens(longest), passes, grad_accum, family.heads()].map(u128::from);
    let [width, vocab] = [family.widest(), family.vocab()].map(u128::from);
    let tokens = batch.saturating_mul(seq);
    // A fused kernel at most reads a mask of tokens by tokens; others write the scores out.
    let scores = if is_fused(family, scenario, gpu) { seq } else { heads.saturating_mul(seq) };
    let step = tokens
        .saturating_mul(width.saturating_mul(64).saturating_add(scores.saturating_mul(16)))
        .saturating_mul(passes)
        .saturating_add(tokens.saturating_mul(vocab).saturating_mul(accum.saturating_mul(16)));
    if limits::STEP_ELEMENTS_MAX < step {
        let message = format!(
            "{micro_batch} sequences of {longest} tokens make tensors beyond what can be counted; \
             no machine holds a fraction of them"
        );
        faults.push(Fault::new("workload.seq_len", Rule::Range, message));
    }
}
