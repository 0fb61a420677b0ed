//! What a choice brings with it in the same step, so that no other field breaks a rule meanwhile.

use simulator::wire::Scenario;
use simulator::wire::parallel::DataParallel;
use simulator::wire::scenario::{Adapter, AdapterKind, BaseFormat, Checkpointing, Model};

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
    let tensor = &mut scenario.parallel.tensor;
    if count <= 1 || *tensor == scenario.hardware.count {
        // All of them shared each product, and still do.
        *tensor = if *tensor == 1 { 1 } else { count.max(1) };
    }
    scenario.hardware.count = count;
    share(scenario);
}

/// Sets how many ranks share each product.
pub(super) fn set_tensor(scenario: &mut Scenario, tensor: u64) {
    scenario.parallel.tensor = tensor;
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
    if matches!(path, "hardware.count" | "parallel.tensor") {
        share(scenario);
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
        adapter.targets.sort_by_key(|target| place(target).unwrap_or(usize::MAX));
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
