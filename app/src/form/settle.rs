//! What a choice brings with it in the same step, so that no other field breaks a rule meanwhile.

use simulator::wire::Scenario;
use simulator::wire::parallel::{DataParallel, Parallel};
use simulator::wire::scenario::{
    Adapter, AdapterKind, BaseFormat, Checkpointing, Framework, Model, Optimizer, Precision, Stack,
};

use crate::applies::replicas;
use crate::engine;

/// Tokens per sequence when a model of texts follows one of images.
const USUAL_SEQ_LEN: u64 = 2048;

/// Inner size of a new adapter.
pub(super) const USUAL_RANK: u64 = 16;

/// Modules that peft targets where nobody says which.
///
/// Source: `TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING` in peft 0.21 (`utils/constants.py`);
/// Phi-3, which it does not have, has its queries and values in `qkv_proj`.
const USUAL_TARGETS: [&str; 9] =
    ["q_proj", "v_proj", "query_key_value", "c_attn", "q", "v", "query", "value", "qkv_proj"];

/// Sets the model. Images have no length, texts have one, convolutions alone have an order of channels
/// and no checkpoints, and an adapter needs modules to adapt.
pub(super) fn set_model(scenario: &mut Scenario, model: Model) {
    scenario.model = model;
    let Some(shape) = engine::shape(&scenario.model) else { return };
    if !shape.megatron && scenario.stack.framework == Framework::MegatronCore {
        set_framework(scenario, Framework::Transformers);
    }
    let workload = &mut scenario.workload;
    if shape.images {
        workload.seq_len = 0;
    } else if workload.seq_len == 0 {
        workload.seq_len = shape.positions.map_or(USUAL_SEQ_LEN, |rows| rows.min(USUAL_SEQ_LEN));
    }
    if !shape.decoder {
        workload.target_len = 0;
    }
    if shape.convolutions {
        scenario.checkpointing = Checkpointing::None;
        scenario.stack.compile = false;
        scenario.stack.activation_offload = false;
    } else {
        scenario.stack.channels_last = false;
    }
    if let Some(adapter) = &mut scenario.adapter {
        adapter.targets.retain(|target| shape.projections.contains(&target.as_str()));
        if adapter.targets.is_empty() {
            adapter.targets = usual_targets(&shape.projections);
        }
    }
    if shape.projections.is_empty() {
        scenario.adapter = None;
    }
}

/// Sets the number of GPUs, and how they share the work.
pub(super) fn set_count(scenario: &mut Scenario, count: u64) {
    let megatron = scenario.stack.framework == Framework::MegatronCore;
    let tensor = &mut scenario.parallel.tensor;
    if !megatron && (count <= 1 || *tensor == scenario.hardware.count) {
        // All of them shared each product, and still do.
        *tensor = if *tensor == 1 { 1 } else { count.max(1) };
    }
    if megatron && count <= 1 {
        scenario.parallel = Parallel::default();
    }
    scenario.hardware.count = count;
    share(scenario);
}

/// Sets how many ranks share each product; in Megatron-core they usually share the sequence, too.
pub(super) fn set_tensor(scenario: &mut Scenario, tensor: u64) {
    let before = scenario.parallel.tensor;
    scenario.parallel.tensor = tensor;
    if tensor <= 1 {
        scenario.parallel.sequence = false;
    } else if before <= 1 && scenario.stack.framework == Framework::MegatronCore {
        scenario.parallel.sequence = true;
    }
    share(scenario);
}

/// Sets the stages. The shown one is one of them, and a lone one is not dealt further.
pub(super) fn set_pipeline(scenario: &mut Scenario, stages: u64) {
    let parallel = &mut scenario.parallel;
    parallel.pipeline = stages;
    parallel.stage = parallel.stage.min(stages.saturating_sub(1));
    if stages <= 1 {
        parallel.virtual_stages = 1;
    }
    share(scenario);
}

/// Sets how many ranks share each sequence.
pub(super) fn set_context(scenario: &mut Scenario, ranks: u64) {
    scenario.parallel.context = ranks;
    share(scenario);
}

/// Sets the framework. What the other one alone has is left out.
pub(super) fn set_framework(scenario: &mut Scenario, framework: Framework) {
    scenario.stack.framework = framework;
    match framework {
        Framework::MegatronCore => {
            let clip_grad_norm = scenario.optimizer.clip_grad_norm;
            scenario.optimizer = Optimizer { clip_grad_norm, ..Optimizer::default() };
            scenario.precision = Precision::Bf16;
            scenario.adapter = None;
            let alloc_conf = core::mem::take(&mut scenario.stack.alloc_conf);
            scenario.stack = Stack { framework, alloc_conf, ..Stack::default() };
            scenario.parallel.sequence = 1 < scenario.parallel.tensor;
        }
        Framework::Transformers => {
            if scenario.checkpointing == Checkpointing::Selective {
                scenario.checkpointing = Checkpointing::None;
            }
            let Parallel { tensor, .. } = scenario.parallel;
            scenario.parallel = Parallel::default();
            if tensor == scenario.hardware.count {
                scenario.parallel.tensor = tensor;
            }
        }
    }
    scenario.parallel.data = None;
    share(scenario);
}

/// Several replicas share something, a lone one has nobody to share with.
fn share(scenario: &mut Scenario) {
    if replicas(scenario) <= 1 {
        scenario.parallel.data = None;
    } else if scenario.parallel.data.is_none() {
        scenario.parallel.data = Some(usual_sharing(scenario));
    }
}

/// FSDP2, unless it breaks a rule that DDP keeps.
fn usual_sharing(scenario: &Scenario) -> DataParallel {
    if scenario.stack.framework == Framework::MegatronCore {
        return DataParallel::DistributedOptimizer;
    }
    let faults = |data| {
        let mut tried = scenario.clone();
        tried.parallel.data = Some(data);
        engine::fault_count(&tried)
    };
    if faults(DataParallel::Fsdp2) <= faults(DataParallel::Ddp) {
        DataParallel::Fsdp2
    } else {
        DataParallel::Ddp
    }
}

/// What a mend of a field brings with it.
pub(super) fn after_mend(scenario: &mut Scenario, path: &str) {
    match path {
        "parallel.pipeline" => set_pipeline(scenario, scenario.parallel.pipeline),
        "stack.framework" => set_framework(scenario, scenario.stack.framework),
        "hardware.count" | "parallel.tensor" | "parallel.context" => share(scenario),
        _ => {}
    }
}

/// Switches the adapter on, with peft's own targets, or off.
pub(super) fn set_adapter(scenario: &mut Scenario, on: bool) {
    scenario.adapter = on.then(|| Adapter {
        kind: AdapterKind::Lora,
        rank: USUAL_RANK,
        targets: targets(scenario),
        dropout: 0.0,
        autocast: true,
        base: BaseFormat::Whole,
        base_head: false,
        stable_embedding: false,
    });
}

/// The adapter's targets; without an adapter, those that one would have.
pub(super) fn targets(scenario: &Scenario) -> Vec<String> {
    match &scenario.adapter {
        Some(adapter) => adapter.targets.clone(),
        None => engine::shape(&scenario.model)
            .map(|shape| usual_targets(&shape.projections))
            .unwrap_or_default(),
    }
}

/// Adds a target at its place in the model, or takes it out.
pub(super) fn set_target(scenario: &mut Scenario, name: &str, on: bool) {
    let shape = engine::shape(&scenario.model).unwrap_or_default();
    let Some(adapter) = &mut scenario.adapter else { return };
    adapter.targets.retain(|target| target != name);
    if on {
        adapter.targets.push(name.to_owned());
        let place = |target: &String| shape.projections.iter().position(|name| name == target);
        simulator::order::sort_by(&mut adapter.targets, |a, b| {
            let place = |target| place(target).unwrap_or(usize::MAX);
            place(a).cmp(&place(b))
        });
    }
}

fn usual_targets(projections: &[&str]) -> Vec<String> {
    let usual = projections.iter().filter(|name| USUAL_TARGETS.contains(*name));
    let names: Vec<String> = usual.map(|name| (*name).to_owned()).collect();
    if names.is_empty() {
        projections.iter().map(|name| (*name).to_owned()).collect()
    } else {
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        engine::presets()[0].scenario.clone()
    }

    fn catalog(id: &str) -> Model {
        Model::Catalog { id: id.to_owned() }
    }

    #[test]
    fn more_gpus_share_at_once_and_one_does_not() {
        let mut plan = scenario();
        set_count(&mut plan, 8);
        assert_eq!(plan.parallel.data, Some(DataParallel::Fsdp2));
        assert_eq!(engine::fault_count(&plan), 0);
        set_count(&mut plan, 1);
        assert_eq!(plan, scenario());
    }

    #[test]
    fn replicas_share_in_a_way_that_is_simulated() {
        let mut plan = scenario();
        set_adapter(&mut plan, true);
        set_count(&mut plan, 8);
        assert_eq!(plan.parallel.data, Some(DataParallel::Ddp));
        assert_eq!(engine::fault_count(&plan), 0);
    }

    #[test]
    fn all_gpus_go_on_sharing_products() {
        let mut plan = scenario();
        set_count(&mut plan, 8);
        set_tensor(&mut plan, 8);
        assert_eq!((plan.parallel.data, engine::fault_count(&plan)), (None, 0));
        set_count(&mut plan, 4);
        assert_eq!((plan.parallel.tensor, engine::fault_count(&plan)), (4, 0));
        set_tensor(&mut plan, 1);
        assert_eq!(plan.parallel.data, Some(DataParallel::Fsdp2));
        set_tensor(&mut plan, 4);
        set_count(&mut plan, 1);
        assert_eq!(plan, scenario());
    }

    #[test]
    fn megatron_has_stages_and_transformers_none() {
        let mut plan = scenario();
        set_count(&mut plan, 32);
        set_framework(&mut plan, Framework::MegatronCore);
        set_tensor(&mut plan, 2);
        set_pipeline(&mut plan, 4);
        plan.parallel.stage = 3;
        assert_eq!(engine::fault_count(&plan), 0);
        assert!(plan.parallel.sequence);
        set_pipeline(&mut plan, 2);
        assert_eq!(plan.parallel.stage, 1);
        assert_eq!(engine::fault_count(&plan), 0);
        set_framework(&mut plan, Framework::Transformers);
        assert_eq!(engine::fault_count(&plan), 0);
        set_count(&mut plan, 1);
        assert_eq!(plan, scenario());
        set_framework(&mut plan, Framework::MegatronCore);
        set_model(&mut plan, catalog("bert-base-uncased"));
        assert_eq!(plan.stack.framework, Framework::Transformers);
    }

    #[test]
    fn images_have_no_length_and_texts_have_one() {
        let mut plan = scenario();
        set_adapter(&mut plan, true);
        for card in &engine::catalog().models {
            // A table of positions that is too short is a fault to be seen.
            plan.workload.seq_len = plan.workload.seq_len.min(512);
            set_model(&mut plan, catalog(&card.id));
            assert_eq!(engine::fault_count(&plan), 0, "{}", card.id);
            let shape = engine::shape(&plan.model).unwrap_or_default();
            set_adapter(&mut plan, !shape.projections.is_empty());
            if !shape.convolutions {
                plan.checkpointing = Checkpointing::Full;
            }
            plan.stack.channels_last = shape.convolutions;
            assert_eq!(engine::fault_count(&plan), 0, "{} with an adapter", card.id);
        }
        let vit = engine::catalog().models.iter().find(|card| card.kind.word() == "vit");
        set_model(&mut plan, catalog(&vit.expect("a model of images").id));
        assert_eq!((plan.workload.seq_len, &plan.adapter), (0, &None));
        set_model(&mut plan, catalog("gpt2"));
        assert_eq!(plan.workload.seq_len, 1024);
        set_adapter(&mut plan, true);
        assert_eq!(targets(&plan), ["c_attn"]);
    }

    #[test]
    fn targets_keep_the_order_of_the_model() {
        let mut plan = scenario();
        let before = {
            set_adapter(&mut plan, true);
            plan.clone()
        };
        set_target(&mut plan, "q_proj", false);
        assert_eq!(targets(&plan), ["v_proj"]);
        set_target(&mut plan, "q_proj", true);
        assert_eq!(plan, before);
    }
}
