//! Every choice of the stack in small: no bug panics, and a steady step leaves what it found.

use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::scenario::check;
use crate::simulate::{Rates, simulate, simulate_with};

/// A small job with changes.
fn job(model: &Value, parallel: &Value, count: u64, rest: &Value) -> Value {
    let mut config = json!({
        "num_layers": 4, "hidden_size": 64, "num_attention_heads": 8, "vocab_size": 512,
        "max_sequence_length": 32, "bias_dropout_fusion": true, "bias_activation_fusion": true
    });
    let mut document = json!({
        "version": 1,
        "model": {"kind": "megatron_gpt"},
        "hardware": {"gpu": "h200-sxm", "count": count},
        "parallel": parallel,
        "workload": {"micro_batch": 2, "seq_len": 32, "grad_accum": 4},
        "optimizer": {"name": "adamw", "clip_grad_norm": true},
        "stack": {"framework": "megatron_core"}
    });
    config.as_object_mut().unwrap().extend(model.as_object().unwrap().clone());
    document["model"]["config"] = config;
    document.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    document
}

fn run(document: &Value) {
    let valid = match check(document, &Catalog::builtin()) {
        Ok(valid) => valid,
        Err(faults) => panic!("{document}: {faults}"),
    };
    let simulation = simulate(&valid);
    assert!(0 < simulation.report.steady.peak_requested_bytes.get(), "{document}");
}

fn models() -> Vec<Value> {
    let gated = json!({
        "gated_linear_unit": true, "activation_func": "silu", "add_bias_linear": false,
        "normalization": "RMSNorm", "position_embedding_type": "rope", "num_query_groups": 4,
        "hidden_dropout": 0.0, "attention_dropout": 0.0
    });
    let mut plain = gated.clone();
    plain["bias_activation_fusion"] = json!(false);
    plain["bias_dropout_fusion"] = json!(false);
    vec![
        json!({}),
        json!({"share_embeddings_and_output_weights": true, "hidden_dropout": 0.0}),
        json!({"bias_dropout_fusion": false, "bias_activation_fusion": false}),
        json!({"position_embedding_type": "none", "num_query_groups": 4}),
        json!({"position_embedding_type": "rope"}),
        gated,
        plain,
    ]
}

#[test]
fn layouts_of_dense_models() {
    let layouts = [
        (json!({}), 1),
        (json!({"data": "ddp"}), 2),
        (json!({"data": "distributed_optimizer"}), 2),
        (json!({"tensor": 2, "sequence": true}), 2),
        (json!({"tensor": 2, "data": "distributed_optimizer"}), 6),
        (json!({"pipeline": 2, "stage": 0}), 2),
        (json!({"pipeline": 4, "stage": 2, "data": "distributed_optimizer"}), 8),
        (json!({"pipeline": 4, "stage": 3, "tensor": 2, "sequence": true}), 8),
        (json!({"pipeline": 2, "stage": 0, "virtual_stages": 2}), 2),
        (json!({"pipeline": 2, "stage": 1, "virtual_stages": 2, "data": "ddp"}), 4),
    ];
    for (i, model) in models().iter().enumerate() {
        for (j, (layout, count)) in layouts.iter().enumerate() {
            let checkpointing = ["none", "selective", "full"][(i + j) % 3];
            run(&job(model, layout, *count, &json!({"checkpointing": checkpointing})));
        }
    }
}

/// Layers of Transformer Engine: each option, and sequences that ranks share.
#[test]
fn layouts_of_engine_models() {
    let engine = json!({
        "transformer_impl": "transformer_engine", "position_embedding_type": "rope",
        "num_query_groups": 4, "hidden_dropout": 0.0
    });
    let mut fused = engine.clone();
    for key in ["apply_rope_fusion", "cross_entropy_loss_fusion", "gradient_accumulation_fusion"] {
        fused[key] = json!(true);
    }
    fused["cross_entropy_fusion_impl"] = json!("te");
    fused["create_attention_mask_in_dataloader"] = json!(false);
    let mut squared = engine.clone();
    squared["activation_func"] = json!("squared_relu");
    squared["bias_activation_fusion"] = json!(false);
    squared["rotary_percent"] = json!(0.5);
    let learned = json!({
        "transformer_impl": "transformer_engine", "share_embeddings_and_output_weights": true
    });
    let layouts = [
        (json!({}), 1),
        (json!({"tensor": 2, "sequence": true, "data": "distributed_optimizer"}), 4),
        (json!({"context": 2}), 2),
        (json!({"context": 2, "tensor": 2, "sequence": true}), 4),
        (json!({"pipeline": 2, "stage": 1, "context": 2}), 4),
        (json!({"pipeline": 2, "stage": 0, "virtual_stages": 2}), 2),
    ];
    let mut unfused = learned.clone();
    unfused["attention_backend"] = json!("unfused");
    for (i, model) in [engine, fused, squared, learned, unfused].iter().enumerate() {
        let shares = model["attention_backend"] != "unfused";
        for (j, (layout, count)) in layouts.iter().enumerate() {
            if !shares && layout.get("context").is_some() {
                continue;
            }
            let checkpointing = ["none", "selective", "full"][(i + j) % 3];
            run(&job(model, layout, *count, &json!({"checkpointing": checkpointing})));
        }
    }
}

/// `DeepSpeed`'s pipeline engine, in both number formats and with gradients added up in fp32.
#[test]
fn layouts_under_deepspeed() {
    let model = json!({
        "share_embeddings_and_output_weights": true, "masked_softmax_fusion": true,
        "embed_layernorm": true
    });
    let mut even = model.clone();
    even["num_layers"] = json!(2);
    even["account_for_embedding_in_pipeline_split"] = json!(true);
    even["account_for_loss_in_pipeline_split"] = json!(true);
    even["position_embedding_type"] = json!("none");
    let mut uneven = model.clone();
    uneven["num_layers"] = json!(7);
    uneven["num_layers_in_last_pipeline_stage"] = json!(1);
    for stage in 0..4 {
        let layout = json!({"data": "zero1", "pipeline": 4, "stage": stage});
        run(&job(&uneven, &layout, 4, &json!({"checkpointing": "full"})));
    }
    uneven["num_layers_in_first_pipeline_stage"] = json!(2);
    for stage in 0..4 {
        run(&job(&uneven, &json!({"data": "zero1", "pipeline": 4, "stage": stage}), 4, &json!({})));
    }
    let layouts = [
        (json!({"data": "zero1"}), 1),
        (json!({"data": "zero1", "pipeline": 2, "stage": 0}), 4),
        (json!({"data": "zero1", "pipeline": 2, "stage": 1, "tensor": 2}), 8),
        (json!({"data": "zero1", "pipeline": 4, "stage": 1}), 4),
        (
            json!({"data": "zero1", "zero": {"grad_accum_dtype": "fp32"}, "pipeline": 4, "stage": 3}),
            8,
        ),
    ];
    for model in [model, even] {
        for (i, (layout, count)) in layouts.iter().enumerate() {
            for checkpointing in ["none", "full"] {
                let precision = if i % 2 == 0 { "bf16" } else { "fp16" };
                let rest = json!({"checkpointing": checkpointing, "precision": precision});
                run(&job(&model, layout, *count, &rest));
            }
        }
    }
}

#[test]
fn layouts_of_mixtures() {
    let gated = models().swap_remove(5);
    for (load, experts, expert, replicas, fused) in [
        ("balanced", 4, 4, 4, true),
        ("first", 8, 2, 4, true),
        ("balanced", 8, 1, 2, false),
        ("first", 3, 1, 1, false),
    ] {
        let mut model = gated.clone();
        model["num_moe_experts"] = json!(experts);
        model["expert_load"] = json!(load);
        model["bias_activation_fusion"] = json!(fused);
        let layout = json!({"expert": expert, "data": "distributed_optimizer"});
        for checkpointing in ["none", "selective", "full"] {
            run(&job(&model, &layout, replicas, &json!({"checkpointing": checkpointing})));
        }
    }
}

/// Whichever stage is shown, the verdict is that of the worst, which is replayed in full.
#[test]
fn the_worst_stage_decides() {
    let of = |stage: u64| {
        let layout = json!({"pipeline": 4, "stage": stage});
        let document = job(&json!({}), &layout, 4, &json!({}));
        check(&document, &Catalog::builtin()).unwrap()
    };
    let reports: Vec<_> = (0..4).map(|stage| simulate(&of(stage)).report).collect();
    let alone: Vec<_> = (0..4).map(|stage| simulate_with(&of(stage), Rates::Best).report).collect();
    let worst = reports[0].verdict.stage.unwrap();
    let highest = |stage: usize| {
        let report = &reports[stage];
        report.first.peak_requested_bytes.max(report.steady.peak_requested_bytes)
    };
    assert!((0..4).all(|stage| highest(stage) <= highest(usize::try_from(worst).unwrap())));
    for (stage, report) in reports.iter().enumerate() {
        assert_eq!(report.ranks, reports[0].ranks);
        assert_eq!(report.verdict, reports[0].verdict);
        assert_eq!(report.steady, alone[stage].steady);
        let of_verdict = report.figures.iter().find(|figure| figure.id == "device_peak").unwrap();
        let difference = of_verdict.value - report.verdict.device_peak_bytes.as_f64();
        assert!(difference.abs() < 0.5, "bytes: {difference}");
        assert!(of_verdict.formula.ends_with(&format!("on stage {worst}")));
        let rank = &report.ranks[stage];
        assert_eq!(rank.stage, stage as u64);
        let allocated = [&report.first, &report.steady].map(|step| step.peak_allocated_bytes);
        assert!(rank.peak_allocated_bytes <= allocated[0].max(allocated[1]));
        let sum: u64 = rank.categories.iter().map(|row| row.bytes.get()).sum();
        assert_eq!(sum, rank.peak_allocated_bytes.get());
    }
    let verdict = &alone[usize::try_from(worst).unwrap()].verdict;
    assert_eq!(reports[0].verdict.device_peak_bytes, verdict.device_peak_bytes);
    assert_eq!(verdict.stage, None);
}

/// Fewer micro-batches than stages, one, and sequences of one.
#[test]
fn small_workloads() {
    for (stage, micro_batch, seq_len, grad_accum) in
        [(0, 1, 1, 1), (1, 1, 32, 1), (3, 2, 8, 2), (0, 1, 16, 3)]
    {
        let layout = json!({"pipeline": 4, "stage": stage});
        let workload =
            json!({"micro_batch": micro_batch, "seq_len": seq_len, "grad_accum": grad_accum});
        run(&job(&json!({}), &layout, 4, &json!({"workload": workload})));
    }
    let layout = json!({"pipeline": 2, "stage": 1, "virtual_stages": 2});
    let workload = json!({"micro_batch": 1, "seq_len": 32, "grad_accum": 2});
    run(&job(&json!({}), &layout, 2, &json!({"workload": workload})));
}

#[test]
fn what_does_not_go_together_is_a_fault() {
    let catalog = Catalog::builtin();
    let path = |document: &Value| match check(document, &catalog) {
        Ok(_) => None,
        Err(faults) => Some(faults.0[0].path.clone()),
    };
    let rest = json!({});
    let engine = json!({"transformer_impl": "transformer_engine"});
    let mut unfused = engine.clone();
    unfused["attention_backend"] = json!("unfused");
    for (model, layout, count, expect) in [
        (json!({}), json!({"tensor": 3}), 3, "parallel.tensor"),
        (json!({}), json!({"pipeline": 3}), 3, "parallel.pipeline"),
        (json!({}), json!({"pipeline": 2, "virtual_stages": 3}), 2, "parallel.virtual_stages"),
        (json!({}), json!({"virtual_stages": 2}), 1, "parallel.virtual_stages"),
        (json!({}), json!({"sequence": true}), 1, "parallel.sequence"),
        (json!({}), json!({"expert": 2, "data": "ddp"}), 2, "parallel.expert"),
        (json!({}), json!({"data": "fsdp2"}), 2, "parallel.data"),
        (json!({"num_moe_experts": 4}), json!({}), 1, "model.config.num_moe_experts"),
        (json!({}), json!({"context": 2}), 2, "parallel.context"),
        (json!({"embed_layernorm": true}), json!({}), 1, "model.config.embed_layernorm"),
        (json!({"apply_rope_fusion": true}), json!({}), 1, "model.config.apply_rope_fusion"),
        (engine.clone(), json!({"data": "zero1"}), 1, "model.config.transformer_impl"),
        (engine.clone(), json!({"context": 16}), 16, "parallel.context"),
        (unfused, json!({"context": 2}), 2, "model.config.attention_backend"),
        (json!({}), json!({"data": "zero2"}), 1, "parallel.data"),
        (
            json!({"num_layers_in_last_pipeline_stage": 3}),
            json!({"pipeline": 3}),
            3,
            "model.config.num_layers_in_last_pipeline_stage",
        ),
    ] {
        let found = path(&job(&model, &layout, count, &rest));
        assert_eq!(found.as_deref(), Some(expect));
    }
    let mut transformers = job(&json!({}), &json!({}), 1, &rest);
    transformers["stack"]["framework"] = json!("transformers");
    assert_eq!(path(&transformers).as_deref(), Some("stack.framework"));
}
