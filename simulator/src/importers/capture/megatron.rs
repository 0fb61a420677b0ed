//! The `case` of a Megatron-core capture, as `measure/megatron_case.py` was started with it.

use serde_json::{Map, Value, json};

use super::{unsupported, unsupported_word};
use crate::scenario::{Table, limits};
use crate::wire::parallel::{DataParallel, Parallel};
use crate::wire::scenario::{
    Checkpointing, Framework, Hardware, Model, Optimizer, Precision, SCENARIO_VERSION, Stack,
    Workload,
};
use crate::wire::{Faults, ModelKind, Scenario};

/// Whether a case is one of Megatron-core: its models name no class.
pub(super) fn is_megatron(table: &mut Table<'_>) -> bool {
    let kind = table.value("model").and_then(|model| model.get("kind"));
    table.value("num_micro_batches").is_some() && kind.is_none()
}

/// Reads the case.
pub(super) fn scenario(
    mut table: Table<'_>,
    gpu: &str,
    mut faults: Faults,
) -> Result<Scenario, Faults> {
    let name = table.text("id", &mut faults).map(str::to_owned);
    let faults = &mut faults;
    let workload = workload(&mut table, faults);
    let none = Map::new();
    let layout = if table.value("parallel").is_none() {
        layout(Table::new("case.parallel".to_owned(), &none), &mut table, faults)
    } else {
        let own = table.table("parallel", faults);
        own.and_then(|own| layout(own, &mut table, faults))
    };
    let checkpointing = unsupported_word(&mut table, "recompute", Checkpointing::None, faults);
    let sequence = workload.as_ref().map_or(1, |workload| workload.seq_len);
    let config = model(&mut table, sequence, faults);
    for (key, _) in table.unknown() {
        faults.push(unsupported(table.path(key), "a field that no scenario has"));
    }
    let scenario = (|| {
        let (count, parallel) = layout?;
        Some(Scenario {
            version: SCENARIO_VERSION,
            name,
            model: Model::Inline { kind: ModelKind::MegatronGpt, config: config? },
            hardware: Hardware {
                gpu: gpu.to_owned(),
                count,
                already_used_bytes: 0,
                process_cap_bytes: None,
            },
            parallel,
            workload: workload?,
            precision: Precision::Bf16,
            optimizer: Optimizer { clip_grad_norm: true, ..Optimizer::default() },
            checkpointing: checkpointing?,
            adapter: None,
            stack: Stack { framework: Framework::MegatronCore, ..Stack::default() },
        })
    })();
    match scenario {
        Some(scenario) if faults.is_empty() => Ok(scenario),
        _ => Err(core::mem::take(faults)),
    }
}

fn workload(table: &mut Table<'_>, faults: &mut Faults) -> Option<Workload> {
    let micro_batch = table.required_integer("micro_batch", limits::MICRO_BATCH, faults);
    let seq_len = table.required_integer("seq_len", limits::SEQ_LEN, faults);
    let grad_accum = table.required_integer("num_micro_batches", limits::GRAD_ACCUM, faults);
    let (micro_batch, seq_len) = (micro_batch?, seq_len?);
    Some(Workload { micro_batch, seq_len, target_len: 0, grad_accum: grad_accum? })
}

/// Sizes of the groups, and the rank: the first of each group in its pipeline stage.
fn layout(
    mut own: Table<'_>,
    table: &mut Table<'_>,
    faults: &mut Faults,
) -> Option<(u64, Parallel)> {
    let mut size = |key| own.integer_or(key, limits::GPU_COUNT, 1, faults);
    let [tensor, pipeline, virtual_stages, replicas, expert, context] =
        ["tp", "pp", "vpp", "dp", "ep", "cp"].map(&mut size);
    let tensor = tensor?;
    let sequence = own.flag_or("sp", 1 < tensor, faults)?;
    let shares = own.flag_or("dist_opt", true, faults)?;
    for (key, _) in own.unknown() {
        faults.push(unsupported(own.path(key), "a layout that no scenario has"));
    }
    let stage = table.integer_or("stage", 0..=*limits::GPU_COUNT.end(), 0, faults)?;
    let data = if shares { DataParallel::DistributedOptimizer } else { DataParallel::Ddp };
    let (pipeline, context) = (pipeline?, context?);
    let count = tensor * pipeline * context * replicas?;
    let parallel = Parallel {
        tensor,
        sequence,
        pipeline,
        virtual_stages: virtual_stages?,
        expert: expert?,
        context,
        stage,
        data: Some(data),
        ..Parallel::default()
    };
    Some((count, parallel))
}

/// What the program builds `TransformerConfig` and `GPTModel` with.
fn model(table: &mut Table<'_>, seq_len: u64, faults: &mut Faults) -> Option<Map<String, Value>> {
    let balanced = table.flag_or("balanced", false, faults)?;
    let own = table.required_table("model", faults)?;
    let fields = own.fields();
    let renamed = [
        ("layers", "num_layers"),
        ("hidden", "hidden_size"),
        ("heads", "num_attention_heads"),
        ("kv", "num_query_groups"),
        ("ffn", "ffn_hidden_size"),
        ("vocab", "vocab_size"),
        ("norm", "normalization"),
        ("pos", "position_embedding_type"),
        ("experts", "num_moe_experts"),
        ("topk", "moe_router_topk"),
    ];
    let flag = |key: &str, default: bool| {
        fields.get(key).map_or(default, |value| value.as_bool().unwrap_or(default))
    };
    let mut config = Map::new();
    for (key, value) in fields {
        let name = renamed.iter().find(|(from, _)| from == key).map(|(_, to)| *to);
        match (key.as_str(), name) {
            (_, Some(name)) => {
                config.insert(name.to_owned(), value.clone());
            }
            ("swiglu" | "tie" | "fuse" | "dropout", None) => {}
            _ => faults.push(unsupported(own.path(key), "a field that no scenario has")),
        }
    }
    let gated = flag("swiglu", false);
    let experts = fields.contains_key("experts");
    let dropout = fields.get("dropout").cloned().unwrap_or_else(|| json!(0.1));
    let mut set = |key: &str, value: Value| config.insert(key.to_owned(), value);
    set("max_sequence_length", json!(seq_len));
    set("share_embeddings_and_output_weights", json!(flag("tie", true)));
    set("bias_activation_fusion", json!(flag("fuse", true)));
    set("bias_dropout_fusion", json!(true));
    set("hidden_dropout", dropout.clone());
    set("attention_dropout", dropout);
    set("add_bias_linear", json!(!gated && !experts));
    if gated {
        set("gated_linear_unit", json!(true));
        set("activation_func", json!("silu"));
    } else {
        // The program gives the normalization to the layers' specification alone.
        set("normalization", fields.get("norm").cloned().unwrap_or_else(|| json!("LayerNorm")));
    }
    if experts {
        // Without forced balance the program's router sends every token to the first experts.
        set("expert_load", json!(if balanced { "balanced" } else { "first" }));
    }
    Some(config)
}
