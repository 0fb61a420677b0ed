//! Stages from summaries and in full agree to the byte.

use serde_json::{Value, json};

use super::{rounded, stages};
use crate::catalog::Catalog;
use crate::process::Process;
use crate::program::Run;
use crate::scenario::{ValidScenario, check};
use crate::wire::timeline::Category;

fn valid(model: &Value, parallel: &Value, rest: &Value) -> ValidScenario {
    let mut document = json!({
        "version": 1,
        "model": {"kind": "megatron_gpt", "config": {
            "num_layers": 24, "hidden_size": 64, "num_attention_heads": 8, "vocab_size": 512,
            "max_sequence_length": 32, "bias_dropout_fusion": true, "bias_activation_fusion": true
        }},
        "hardware": {"gpu": "h200-sxm", "count": 16},
        "parallel": parallel,
        "workload": {"micro_batch": 2, "seq_len": 32, "grad_accum": 8},
        "optimizer": {"name": "adamw", "clip_grad_norm": true},
        "stack": {"framework": "megatron_core"}
    });
    for (key, value) in model.as_object().unwrap() {
        document["model"]["config"][key] = value.clone();
    }
    for (key, value) in rest.as_object().unwrap() {
        document[key] = value.clone();
    }
    check(&document, &Catalog::builtin()).unwrap_or_else(|faults| panic!("{document}: {faults}"))
}

/// The highest point of a run, and what stands there by category.
fn highest(live: &mut [i64; 9], run: &Run) -> (i64, [i64; 9]) {
    let mut peak = (live.iter().sum::<i64>(), *live);
    for request in &run.record.requests {
        let storage = &run.record.storages[request.storage().index()];
        let bytes = rounded(storage.bytes).cast_signed();
        live[storage.category as usize] += if request.is_alloc() { bytes } else { -bytes };
        let total = live.iter().sum();
        if peak.0 < total {
            peak = (total, *live);
        }
    }
    peak
}

fn agree(model: &Value, parallel: &Value, rest: &Value) {
    let summaries = stages(&valid(model, parallel, rest));
    assert_eq!(summaries.len() as u64, parallel["pipeline"].as_u64().unwrap());
    for summary in summaries {
        let mut shown = parallel.clone();
        shown["stage"] = summary.stage.into();
        let scenario = valid(model, &shown, rest);
        let (mut process, build) = Process::build(&scenario);
        let mut live = [0; Category::ALL.len()];
        let at_start = highest(&mut live, &build);
        let first = highest(&mut live, &process.step());
        let steady = highest(&mut live, &process.step());
        let context = format!("{model} {shown} {rest}");
        assert_eq!(summary.first_peak.cast_signed(), at_start.0.max(first.0), "first: {context}");
        assert_eq!(summary.steady_peak.cast_signed(), steady.0, "steady: {context}");
        let (total, by_category) = if steady.0 < first.0.max(at_start.0) {
            if first.0 < at_start.0 { at_start } else { first }
        } else {
            steady
        };
        assert_eq!(summary.highest.at.iter().sum::<i64>(), total, "{context}");
        assert_eq!(summary.highest.at, by_category, "{context}");
    }
}

fn llama() -> Value {
    json!({
        "gated_linear_unit": true, "activation_func": "silu", "add_bias_linear": false,
        "normalization": "RMSNorm", "position_embedding_type": "rope", "num_query_groups": 4,
        "hidden_dropout": 0.0, "attention_dropout": 0.0
    })
}

#[test]
fn one_forward_one_backward_folds() {
    for model in [json!({}), json!({"share_embeddings_and_output_weights": true}), llama()] {
        for data in ["ddp", "distributed_optimizer"] {
            for checkpointing in ["none", "selective", "full"] {
                for (pipeline, tensor) in [(2, 1), (4, 2), (8, 1)] {
                    let parallel = json!({"pipeline": pipeline, "tensor": tensor,
                        "sequence": 1 < tensor, "data": data});
                    agree(&model, &parallel, &json!({"checkpointing": checkpointing}));
                }
            }
        }
    }
}

#[test]
fn any_number_of_micro_batches_folds() {
    for grad_accum in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 20] {
        let rest = json!({"workload": {"micro_batch": 1, "seq_len": 32, "grad_accum": grad_accum}});
        for pipeline in [2, 4, 8] {
            agree(&json!({}), &json!({"pipeline": pipeline, "data": "ddp"}), &rest);
        }
    }
}

#[test]
fn few_layers_in_a_stage_fold() {
    for layers in [8, 16, 32, 40] {
        let mut model = llama();
        model["num_layers"] = layers.into();
        agree(&model, &json!({"pipeline": 8, "data": "ddp"}), &json!({}));
    }
}

#[test]
fn mixtures_fold() {
    for (load, expert) in [("balanced", 2), ("first", 4)] {
        let mut model = llama();
        model["num_moe_experts"] = 8.into();
        model["expert_load"] = load.into();
        let parallel = json!({"pipeline": 4, "expert": expert, "data": "distributed_optimizer"});
        agree(&model, &parallel, &json!({}));
    }
}

#[test]
fn interleaved_schedules_fold() {
    for checkpointing in ["none", "full"] {
        for (pipeline, chunks, layers) in [(2, 2, 8), (4, 2, 24), (4, 3, 60), (2, 4, 24)] {
            let parallel = json!({"pipeline": pipeline, "virtual_stages": chunks,
                "data": "distributed_optimizer"});
            let mut model = llama();
            model["num_layers"] = layers.into();
            agree(&model, &parallel, &json!({"checkpointing": checkpointing}));
        }
    }
}

#[test]
fn uneven_stages_fold() {
    let llama = llama();
    for (key, value) in [
        ("num_layers_in_first_pipeline_stage", json!(3)),
        ("num_layers_in_last_pipeline_stage", json!(6)),
        ("account_for_embedding_in_pipeline_split", json!(true)),
        ("account_for_loss_in_pipeline_split", json!(true)),
    ] {
        for (pipeline, chunks) in [(4, 1), (8, 1), (4, 2)] {
            let counted = value.is_boolean();
            if chunks == 2 && !counted {
                continue;
            }
            let mut model = llama.clone();
            model[key] = value.clone();
            let given = value.as_u64().unwrap_or(0);
            let (even, rest) =
                if counted { (pipeline * chunks * 4 - 1, 0) } else { ((pipeline - 1) * 4, given) };
            model["num_layers"] = (even + rest).into();
            let parallel = json!({"pipeline": pipeline, "virtual_stages": chunks, "data": "distributed_optimizer"});
            agree(&model, &parallel, &json!({}));
        }
    }
}

#[test]
fn deepspeed_stages_fold() {
    for grad_accum in [2, 5, 12] {
        for (precision, wide) in [("bf16", json!("fp32")), ("fp16", Value::Null)] {
            let rest = json!({"precision": precision,
                "workload": {"micro_batch": 2, "seq_len": 32, "grad_accum": grad_accum}});
            let mut parallel = json!({"pipeline": 4, "data": "zero1", "tensor": 2});
            if !wide.is_null() {
                parallel["zero"] = json!({"grad_accum_dtype": wide});
            }
            agree(&json!({}), &parallel, &rest);
        }
    }
}

/// 1F1B keeps `min(M, P − stage)` micro-batches, and the peak is where all of them are kept.
#[test]
fn forwards_in_flight_are_those_of_the_table() {
    for (pipeline, grad_accum, expect) in
        [(4, 8, [4, 3, 2, 1].as_slice()), (4, 2, &[2, 2, 2, 1]), (8, 8, &[8, 7, 6, 5, 4, 3, 2, 1])]
    {
        let rest = json!({"workload": {"micro_batch": 2, "seq_len": 32, "grad_accum": grad_accum}});
        let parallel = json!({"pipeline": pipeline, "data": "distributed_optimizer"});
        let summaries = stages(&valid(&llama(), &parallel, &rest));
        let in_flight: Vec<u64> = summaries.iter().map(|summary| summary.in_flight).collect();
        assert_eq!(in_flight, expect);
    }
}
