//! Folded and full agree to the byte.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::catalog::Catalog;
use crate::process::Process;
use crate::program::Run;
use crate::scenario::{ValidScenario, check};

const MODELS: [&str; 4] = ["llama", "gpt2", "qwen2", "qwen3"];
const MIXTURES: [&str; 4] = ["mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v3"];

/// A small model of a class.
fn model(kind: &str, layers: u64) -> Value {
    let config = if kind == "gpt2" {
        json!({"n_embd": 96, "n_layer": layers, "n_head": 3, "vocab_size": 501})
    } else {
        json!({
            "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": layers,
            "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 501,
        })
    };
    json!({"kind": kind, "config": config})
}

/// A small mixture with some plain layers, where the class can have them.
fn mixture(kind: &str, layers: u64, plain: u64) -> Value {
    let mut config = json!({
        "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": layers,
        "num_attention_heads": 6, "num_key_value_heads": 6, "vocab_size": 501,
        "num_local_experts": 6, "num_experts_per_tok": 2,
    });
    let more = match kind {
        "mixtral" => json!({}),
        "deepseek_v3" => json!({
            "moe_intermediate_size": 40, "n_group": 3, "topk_group": 2, "q_lora_rank": 24,
            "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
            "first_k_dense_replace": plain,
        }),
        _ => json!({
            "moe_intermediate_size": 40, "mlp_only_layers": (0..plain).collect::<Vec<u64>>(),
        }),
    };
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    json!({"kind": kind, "config": config})
}

#[test]
fn mixtures_fold() {
    for kind in MIXTURES {
        for (layers, plain) in [(7, 0), (9, 4), (5, 5), (3, 1)] {
            for checkpointing in ["none", "full"] {
                for (precision, attention) in [("bf16", "sdpa"), ("amp_bf16", "eager")] {
                    agrees(&valid(
                        &mixture(kind, layers, plain),
                        &[
                            ("precision", precision.into()),
                            ("stack.attention", attention.into()),
                            ("checkpointing", checkpointing.into()),
                            ("optimizer.clip_grad_norm", true.into()),
                        ],
                    ));
                }
            }
        }
    }
}

fn valid(model: &Value, changes: &[(&str, Value)]) -> ValidScenario {
    let mut document = json!({
        "version": 1,
        "model": model,
        "hardware": {"gpu": "h200-sxm"},
        "workload": {"micro_batch": 2, "seq_len": 40},
        "optimizer": {"name": "adamw"},
        "stack": {},
    });
    for (path, value) in changes {
        let pointer = format!("/{}", path.replace('.', "/"));
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        document.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    check(&document, &Catalog::builtin()).unwrap()
}

/// Live and highest live bytes of a full run, request by request.
fn walk(live: &mut u64, run: &Run) -> u64 {
    let record = &run.record;
    let mut peak = *live;
    for request in &record.requests {
        let bytes = record.storages[request.storage().index()].bytes.max(1).next_multiple_of(512);
        *live = if request.is_alloc() { *live + bytes } else { *live - bytes };
        peak = peak.max(*live);
    }
    peak
}

fn agrees(scenario: &ValidScenario) {
    let (mut process, build) = Process::build(scenario);
    let mut live = 0;
    walk(&mut live, &build);
    let first = walk(&mut live, &process.step());
    let steady = walk(&mut live, &process.step());
    let folded = folded(scenario);
    assert_eq!(
        (folded.first_peak(), folded.steady_peak()),
        (first, steady),
        "{:?} {:?}",
        scenario.document(),
        scenario.architecture()
    );
    assert_eq!(folded.build.net + folded.first.net + folded.steady.net, live.cast_signed());
}

#[test]
fn every_precision_attention_and_checkpointing_folds() {
    for kind in MODELS {
        for precision in ["bf16", "fp32", "amp_bf16", "amp_fp16"] {
            for attention in ["sdpa", "eager"] {
                for checkpointing in ["none", "full"] {
                    for accumulation in [1, 2] {
                        agrees(&valid(
                            &model(kind, 7),
                            &[
                                ("precision", precision.into()),
                                ("stack.attention", attention.into()),
                                ("checkpointing", checkpointing.into()),
                                ("workload.grad_accum", accumulation.into()),
                            ],
                        ));
                    }
                }
            }
        }
    }
}

#[test]
fn adapters_fold() {
    for (kind, targets) in [
        ("llama", ["q_proj", "v_proj"]),
        ("qwen3", ["k_proj", "down_proj"]),
        ("qwen2", ["down_proj", "down_proj"]),
        ("gpt2", ["c_attn", "c_proj"]),
    ] {
        for precision in ["bf16", "amp_fp16"] {
            for checkpointing in ["none", "full"] {
                agrees(&valid(
                    &model(kind, 7),
                    &[
                        ("adapter", json!({"rank": 4, "targets": targets, "dropout": 0.1})),
                        ("precision", precision.into()),
                        ("checkpointing", checkpointing.into()),
                        ("optimizer.clip_grad_norm", true.into()),
                        ("workload.grad_accum", 2.into()),
                    ],
                ));
            }
        }
    }
}

#[test]
fn every_optimizer_folds() {
    let optimizers = [
        json!({"name": "adamw", "implementation": "foreach"}),
        json!({"name": "adamw", "implementation": "fused"}),
        json!({"name": "adamw", "implementation": "loop"}),
        json!({"name": "sgd"}),
        json!({"name": "sgd", "momentum": 0.9}),
    ];
    for kind in MODELS {
        for optimizer in &optimizers {
            for (clip, set_to_none) in [(true, true), (true, false), (false, false)] {
                let mut optimizer = optimizer.clone();
                optimizer["clip_grad_norm"] = clip.into();
                optimizer["set_to_none"] = set_to_none.into();
                for accumulation in [1, 3, 6] {
                    agrees(&valid(
                        &model(kind, 6),
                        &[
                            ("optimizer", optimizer.clone()),
                            ("precision", "amp_bf16".into()),
                            ("workload.grad_accum", accumulation.into()),
                        ],
                    ));
                }
            }
        }
    }
}

#[test]
fn every_loss_and_few_layers_fold() {
    for kind in MODELS {
        for loss in ["transformers5", "transformers4", "fused_linear"] {
            for layers in 1..=5 {
                for precision in ["bf16", "amp_fp16"] {
                    agrees(&valid(
                        &model(kind, layers),
                        &[
                            ("stack.loss", loss.into()),
                            ("precision", precision.into()),
                            ("workload.grad_accum", 4.into()),
                        ],
                    ));
                }
            }
        }
    }
}

#[test]
fn sliding_windows_fold() {
    for first_layer in [0, 1, 2, 5, 9] {
        for attention in ["sdpa", "eager"] {
            for checkpointing in ["none", "full"] {
                let mut model = model("qwen2", 9);
                model["config"]["use_sliding_window"] = true.into();
                model["config"]["sliding_window"] = 16.into();
                model["config"]["max_window_layers"] = first_layer.into();
                agrees(&valid(
                    &model,
                    &[
                        ("stack.attention", attention.into()),
                        ("checkpointing", checkpointing.into()),
                        ("optimizer.clip_grad_norm", true.into()),
                    ],
                ));
            }
        }
    }
}

#[test]
fn catalog_models_fold() {
    for id in ["llama-3.2-1b", "llama-3.1-8b", "gpt2", "qwen2.5-0.5b", "qwen3-0.6b"] {
        for checkpointing in ["none", "full"] {
            for clip in [true, false] {
                agrees(&valid(
                    &json!({"id": id}),
                    &[
                        ("workload.seq_len", 1024.into()),
                        ("checkpointing", checkpointing.into()),
                        ("optimizer.clip_grad_norm", clip.into()),
                    ],
                ));
            }
        }
    }
    agrees(&valid(&json!({"id": "llama-3.1-405b"}), &[("workload.seq_len", 8192.into())]));
}

fn requests() -> impl Strategy<Value = Vec<Tide>> {
    let request = prop_oneof![
        (1..10_000_u64).prop_map(Tide::allocation),
        (1..10_000_u64).prop_map(Tide::free),
    ];
    prop::collection::vec(request, 0..20)
}

proptest! {
    #[test]
    fn stretches_compose(a in requests(), b in requests(), c in requests(), times in 0..9_u64) {
        // Enough alive at the start that no stretch goes below nothing.
        let alive = 1_u64 << 40;
        let walk = |requests: &mut dyn Iterator<Item = &Tide>| {
            let (mut live, mut peak) = (alive, alive);
            for request in requests {
                live = live.strict_add_signed(request.net);
                peak = peak.max(live);
            }
            Tide { net: live.cast_signed() - alive.cast_signed(), peak: peak - alive }
        };
        let [one, two, three] = [&a, &b, &c].map(|part| Tide::of(part.iter().copied()));
        prop_assert_eq!(one, walk(&mut a.iter()));
        prop_assert_eq!(one.then(two).then(three), one.then(two.then(three)));
        prop_assert_eq!(one.then(two), walk(&mut a.iter().chain(&b)));
        prop_assert_eq!(one.then(Tide::NONE), one);
        prop_assert_eq!(Tide::NONE.then(one), one);
        let repeated = (0..times).flat_map(|_| &a);
        prop_assert_eq!(one.repeat(times), walk(&mut { repeated }));
    }
}

#[test]
fn requests_are_rounded_as_the_allocator_rounds() {
    for (bytes, expected) in [(1, 512), (512, 512), (513, 1024), (1024, 1024)] {
        assert_eq!(rounded(bytes), expected);
    }
}
