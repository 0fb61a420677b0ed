//! Folded and full agree to the byte.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::catalog::Catalog;
use crate::program::{Process, Run};
use crate::scenario::{ValidScenario, Word, check};
use crate::wire::scenario::OptimizerName;

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

/// A small encoder–decoder.
fn encoder_decoder(encoder: u64, decoder: u64, gated: bool) -> Value {
    let activation = if gated { "gated-gelu" } else { "relu" };
    json!({"kind": "t5", "config": {
        "d_model": 96, "d_ff": 200, "d_kv": 16, "num_heads": 5, "vocab_size": 501,
        "num_layers": encoder, "num_decoder_layers": decoder, "feed_forward_proj": activation,
        "tie_word_embeddings": !gated,
    }})
}

#[test]
fn parallel_layers_fold() {
    for kind in ["phi", "gpt_neox", "falcon"] {
        let config = json!({
            "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 7,
            "num_attention_heads": 6, "vocab_size": 501, "hidden_dropout": 0.1, "embd_pdrop": 0.1,
            "use_parallel_residual": false, "partial_rotary_factor": 0.5,
        });
        for checkpointing in ["none", "full"] {
            for (precision, attention) in [("bf16", "sdpa"), ("amp_bf16", "eager")] {
                agrees(&valid(
                    &json!({"kind": kind, "config": config}),
                    &[
                        ("precision", precision.into()),
                        ("stack.attention", attention.into()),
                        ("checkpointing", checkpointing.into()),
                        ("workload.grad_accum", 2.into()),
                        ("optimizer.clip_grad_norm", true.into()),
                    ],
                ));
            }
        }
    }
}

#[test]
fn encoder_decoders_fold() {
    for (encoder, decoder) in [(7, 9), (1, 5), (6, 1), (2, 3)] {
        for checkpointing in ["none", "full"] {
            for (precision, attention) in
                [("bf16", "sdpa"), ("fp32", "sdpa"), ("amp_bf16", "eager"), ("amp_fp16", "sdpa")]
            {
                let changes = [
                    ("precision", precision.into()),
                    ("stack.attention", attention.into()),
                    ("checkpointing", checkpointing.into()),
                    ("workload.target_len", 27.into()),
                    ("workload.grad_accum", 4.into()),
                    ("optimizer.clip_grad_norm", true.into()),
                ];
                agrees(&valid(&encoder_decoder(encoder, decoder, encoder == 7), &changes));
            }
        }
    }
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
        ("t5", ["q", "wo"]),
        ("t5", ["o", "wo"]),
    ] {
        let model = if kind == "t5" { encoder_decoder(6, 7, false) } else { model(kind, 7) };
        for precision in ["bf16", "amp_fp16"] {
            for checkpointing in ["none", "full"] {
                agrees(&valid(
                    &model,
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
fn buckets_fold() {
    for kind in MODELS {
        for view in [false, true] {
            for adapter in [json!(null), json!({"rank": 4, "targets": ["c_attn"]})] {
                if !adapter.is_null() && kind != "gpt2" {
                    continue;
                }
                for accumulation in [1, 5] {
                    agrees(&valid(
                        &model(kind, 6),
                        &[
                            ("hardware.count", 4.into()),
                            ("parallel", json!({"data": "ddp", "ddp": {"bucket_view": view}})),
                            ("adapter", adapter.clone()),
                            ("precision", "amp_fp16".into()),
                            ("optimizer.clip_grad_norm", true.into()),
                            ("workload.grad_accum", accumulation.into()),
                        ],
                    ));
                }
            }
        }
    }
}

#[test]
fn columns_and_rows_fold() {
    for kind in ["llama", "qwen2", "qwen3", "qwen2_moe"] {
        for precision in ["bf16", "amp_bf16"] {
            for attention in ["sdpa", "eager"] {
                for checkpointing in ["none", "full"] {
                    let mut model =
                        if kind == "qwen2_moe" { mixture(kind, 7, 2) } else { model(kind, 7) };
                    model["config"]["vocab_size"] = 502.into();
                    agrees(&valid(
                        &model,
                        &[
                            ("hardware.count", 2.into()),
                            ("parallel", json!({"tensor": 2})),
                            ("precision", precision.into()),
                            ("stack.attention", attention.into()),
                            ("checkpointing", checkpointing.into()),
                            ("workload.grad_accum", 4.into()),
                        ],
                    ));
                }
            }
        }
    }
}

#[test]
fn shards_fold() {
    let fsdp = [
        json!({}),
        json!({"reshard_after_forward": false}),
        json!({"mixed_precision": true, "reduce_dtype": "fp32"}),
        json!({"mixed_precision": true, "cpu_offload": true}),
    ];
    for kind in MODELS {
        for options in &fsdp {
            for precision in ["bf16", "fp32", "amp_fp16"] {
                if precision == "amp_fp16" && options["cpu_offload"] == true {
                    continue;
                }
                for checkpointing in ["none", "full"] {
                    for (layers, accumulation) in [(1, 1), (4, 3), (8, 1)] {
                        agrees(&valid(
                            &model(kind, layers),
                            &[
                                ("hardware.count", 4.into()),
                                ("parallel", json!({"data": "fsdp2", "fsdp": options})),
                                ("optimizer.clip_grad_norm", (accumulation == 1).into()),
                                ("precision", precision.into()),
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

/// Their layers are all run, for no two need be alike; micro-batches fold.
#[test]
fn image_networks_fold() {
    for name in ["resnet18", "densenet121", "convnext_tiny", "mobilenet_v3_small"] {
        for precision in ["fp32", "amp_bf16", "amp_fp16"] {
            for channels_last in [false, true] {
                let config = json!({"name": name, "image_size": 64, "num_classes": 10});
                agrees(&valid(
                    &json!({"kind": "torchvision", "config": config}),
                    &[
                        ("workload.seq_len", 0.into()),
                        ("workload.grad_accum", 5.into()),
                        ("precision", precision.into()),
                        ("stack.channels_last", channels_last.into()),
                    ],
                ));
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
fn optimizers_fold() {
    for (name, _) in OptimizerName::WORDS {
        for implementation in ["foreach", "loop"] {
            let mut changes = vec![("optimizer.name", Value::from(*name))];
            changes.push(("optimizer.implementation", implementation.into()));
            let name = Word::WORDS.iter().find(|(word, _)| word == name).unwrap().1;
            let has = OptimizerName::implementations(name);
            if !has.iter().any(|one| one.word() == implementation) {
                continue;
            }
            for precision in ["bf16", "amp_fp16"] {
                changes.push(("precision", precision.into()));
                agrees(&valid(&model("llama", 7), &changes));
                agrees(&valid(&model("qwen2", 6), &changes));
            }
        }
    }
}

#[test]
fn listed_windows_fold() {
    let (full, sliding) = ("full_attention", "sliding_attention");
    for types in [[sliding, full, sliding, full, full], [sliding; 5], [full; 5]] {
        for attention in ["sdpa", "eager"] {
            let mut model = model("qwen3", 5);
            model["config"]["use_sliding_window"] = true.into();
            model["config"]["sliding_window"] = 16.into();
            model["config"]["layer_types"] = json!(types);
            agrees(&valid(&model, &[("stack.attention", attention.into())]));
        }
    }
}

#[test]
fn layers_that_take_turns_fold() {
    for (kind, layers) in [("gemma2", 5), ("gemma3_text", 9), ("phi3", 6)] {
        for (checkpointing, attention) in [("none", "sdpa"), ("full", "eager")] {
            let mut model = model(kind, layers);
            model["config"]["sliding_window"] = 16.into();
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
