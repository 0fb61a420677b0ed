//! Documents and what is said about them.

use serde_json::{Value, json};

use super::*;
use crate::catalog::Catalog;
use crate::wire::scenario::{Model, Optimizer, Precision, Stack};
use crate::wire::{Faults, ModelKind, Topic};

const SMALLEST: &str = "version = 1\nmodel.id = \"llama-3.2-1b\"\nhardware.gpu = \"h200-sxm\"\n\
                        workload = { micro_batch = 1, seq_len = 128 }\n";

fn found(faults: &Faults) -> Vec<String> {
    faults.0.iter().map(|fault| format!("{} {:?}", fault.path, fault.rule)).collect()
}

fn document(changes: &[(&str, Value)]) -> Value {
    let mut document: Value = toml::from_str(SMALLEST).unwrap();
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent =
            if parent.is_empty() { Some(&mut document) } else { document.pointer_mut(parent) };
        parent.unwrap()[key] = value.clone();
    }
    document
}

#[test]
fn the_smallest_document_takes_every_default() {
    let scenario = read(SMALLEST, Format::Toml).unwrap();
    assert_eq!(scenario.precision, Precision::Bf16);
    assert_eq!(scenario.optimizer, Optimizer::default());
    assert_eq!(scenario.stack, Stack::default());
    assert_eq!((scenario.hardware.count, scenario.workload.grad_accum), (1, 1));
}

#[test]
fn every_fixture_reads_in_both_formats() {
    let toml = include_str!("../../../tests/scenarios/every-field.toml");
    let json = include_str!("../../../tests/scenarios/every-field.json");
    let scenario = read(toml, Format::Toml).unwrap();
    assert_eq!(read(json, Format::Json).unwrap(), scenario);
    validate(&scenario, &Catalog::builtin()).unwrap();
    let smallest = include_str!("../../../tests/scenarios/smallest.toml");
    assert_eq!(read(smallest, Format::Toml), read(SMALLEST, Format::Toml));
    let inline = include_str!("../../../tests/scenarios/inline-model.toml");
    let documentation = include_str!("../../../docs/formats.md");
    for (kind, text) in [("toml", toml), ("json", json), ("toml", smallest), ("toml", inline)] {
        assert!(documentation.contains(&format!("```{kind}\n{text}```")), "{text}");
    }
    let scenario = read(inline, Format::Toml).unwrap();
    let valid = validate(&scenario, &Catalog::builtin()).unwrap();
    assert_eq!(valid.model_name(), "Mistral without a window");
}

#[test]
fn reading_reports_all_faults_at_once() {
    let text = "version = 1\nnmae = \"a\"\nprecision = \"bf17\"\ncheckpointing = 3\n\
                [model]\nid = 5\n[hardware]\ncount = 0\nalready_used_bytes = \"2 GB of it\"\n\
                [workload]\nmicro_batch = -1\nseq_len = 1.5\nsequence_length = 5\n\
                [optimizer]\nname = \"adam\"\nmomentum = 1.0\nset_to_none = \"yes\"\n\
                [stack]\nattention = \"flash\"\nalloc_conf = 1\n";
    let expected = [
        "model.id Type",
        "hardware.gpu Missing",
        "hardware.count Range",
        "hardware.already_used_bytes Type",
        "workload.micro_batch Range",
        "workload.seq_len Type",
        "workload.sequence_length UnknownField",
        "precision Choice",
        "optimizer.name Choice",
        "optimizer.momentum Range",
        "optimizer.set_to_none Type",
        "checkpointing Type",
        "stack.attention Choice",
        "stack.alloc_conf Type",
        "nmae UnknownField",
    ];
    let faults = read(text, Format::Toml).unwrap_err();
    assert_eq!(found(&faults), expected);
    let unknown = faults.0.last().unwrap();
    assert_eq!(unknown.arguments, ["nmae", "name"]);
    let choice = faults.0.iter().find(|fault| fault.path == "optimizer.name").unwrap();
    assert_eq!(choice.mends[0].value, "adamw");
}

#[test]
fn documents_that_are_none_have_one_fault() {
    let check = |text: &str, format, expected: &str| {
        assert_eq!(found(&read(text, format).unwrap_err()), [expected], "{text}");
    };
    check("version = ", Format::Toml, " Syntax");
    check("{\"version\": 1,}", Format::Json, " Syntax");
    check("[1]", Format::Json, " Type");
    check("version = 2\nnew = 1", Format::Toml, "version Version");
    check("version = 0", Format::Toml, "version Version");
    check("model = 1", Format::Toml, "version Missing");
    check(&"[".repeat(100_000), Format::Json, " Syntax");
    let faults = read("a = 1\nb = \n", Format::Toml).unwrap_err();
    assert!(faults.0[0].message.contains("line 2"), "{faults}");
}

#[test]
fn numbers_and_sizes_may_be_texts() {
    let changes = [
        ("/workload/micro_batch", json!("4")),
        ("/workload/seq_len", json!(2048.0)),
        ("/hardware/already_used_bytes", json!("2 GiB")),
        ("/hardware/process_cap_bytes", json!("60 GB")),
    ];
    let scenario = from_value(&document(&changes)).unwrap();
    assert_eq!((scenario.workload.micro_batch, scenario.workload.seq_len), (4, 2048));
    assert_eq!(scenario.hardware.already_used_bytes, 2 << 30);
    assert_eq!(scenario.hardware.process_cap_bytes, Some(60_000_000_000));
}

#[test]
fn a_model_is_an_id_or_a_class_with_its_configuration() {
    let check = |model: Value, expected: &[&str]| {
        let faults = from_value(&document(&[("/model", model)])).unwrap_err();
        assert_eq!(found(&faults), expected);
    };
    check(json!({}), &["model.id Missing"]);
    check(json!({"id": "gpt2", "kind": "gpt2", "config": {}}), &["model.id Conflict"]);
    check(json!({"kind": "gpt3", "config": {}}), &["model.kind Choice"]);
    check(json!({"config": {}}), &["model.kind Missing"]);
    check(json!({"kind": "gpt2"}), &["model.config Missing"]);
    check(json!({"id": "gpt2", "size": 3}), &["model.size UnknownField"]);
}

/// What validation says about the smallest document with changes.
fn check_validation(changes: &[(&str, Value)], expected: &[&str]) -> Faults {
    let scenario = from_value(&document(changes)).unwrap();
    let faults = validate(&scenario, &Catalog::builtin()).err().unwrap_or_default();
    assert_eq!(found(&faults), expected, "{changes:?}");
    faults
}

#[test]
fn what_cannot_be_read_hides_no_broken_rule() {
    let check = |changes: &[(&str, Value)], expected: &[&str]| {
        let faults = check(&document(changes), &Catalog::builtin()).unwrap_err();
        assert_eq!(found(&faults), expected, "{changes:?}");
    };
    let [unknown, zero] = [("/model/id", json!("lama")), ("/workload/micro_batch", json!(0))];
    let unknown_gpu = ("/hardware/gpu", json!("h20000"));
    check(
        &[unknown, unknown_gpu, zero.clone()],
        &["workload.micro_batch Range", "model.id UnknownId", "hardware.gpu UnknownId"],
    );
    check(&[("/model", json!({})), zero], &["model.id Missing", "workload.micro_batch Range"]);
    let no_rule = json!({"name": "adam", "momentum": 0.9});
    let [no_gpu, long] = [("/hardware", json!({})), ("/workload/seq_len", json!(1025))];
    check(
        &[("/optimizer", no_rule), no_gpu, ("/model/id", json!("gpt2")), long],
        &["hardware.gpu Missing", "optimizer.name Choice", "workload.seq_len Conflict"],
    );
}

#[test]
fn ids_are_looked_up_and_made_canonical() {
    let changes =
        [("/model/id", json!("meta-llama/Llama-3.2-1B")), ("/hardware/gpu", json!("H200"))];
    let scenario = from_value(&document(&changes)).unwrap();
    let valid = validate(&scenario, &Catalog::builtin()).unwrap();
    assert_eq!(valid.document().hardware.gpu, "h200-sxm");
    assert_eq!(valid.document().model, Model::Catalog { id: "llama-3.2-1b".to_owned() });
    assert_eq!(valid.model_name(), "Llama 3.2 1B");
    assert!(valid.notes().is_empty() && valid.outside_pool().measured);
    let changes = [("/model/id", json!("lama")), ("/hardware/gpu", json!("h20000"))];
    check_validation(&changes, &["model.id UnknownId", "hardware.gpu UnknownId"]);
}

#[test]
fn rules_over_several_fields() {
    let check = check_validation;
    check(&[("/hardware/count", json!(8))], &["parallel.data Missing"]);
    let layout = |count: u64, parallel: serde_json::Value| {
        [("/hardware/count", json!(count)), ("/parallel", parallel)]
    };
    check(&layout(8, json!({"data": "ddp"})), &[]);
    check(&layout(8, json!({"data": "fsdp2"})), &[]);
    check(&layout(8, json!({"tensor": 8})), &[]);
    check(
        &layout(8, json!({"tensor": 3})),
        &[
            "hardware.count Divisible",
            "parallel.tensor Divisible",
            "parallel.tensor Divisible",
            "parallel.tensor Divisible",
        ],
    );
    check(&layout(1, json!({"data": "fsdp2"})), &["parallel.data Conflict"]);
    check(&layout(8, json!({"data": "zero3"})), &[]);
    check(&layout(1, json!({"data": "zero2"})), &[]);
    let offloaded = json!({"data": "zero1", "zero": {"offload_param": true}});
    check(&layout(8, offloaded), &["parallel.zero.offload_param Conflict"]);
    check(
        &layout(8, json!({"pipeline": 8, "stage": 8})),
        &["parallel.stage Range", "parallel.pipeline Unsupported"],
    );
    check(&[("/optimizer", json!({"momentum": 0.9}))], &["optimizer.momentum Conflict"]);
    check(&[("/optimizer", json!({"name": "sgd", "momentum": 0.9}))], &[]);
    check(&[("/optimizer", json!({"name": "rmsprop", "momentum": 0.9, "centered": true}))], &[]);
    check(&[("/optimizer", json!({"name": "lion", "implementation": "loop"}))], &[]);
    for (name, word) in [("rmsprop", "fused"), ("adafactor", "fused"), ("muon", "foreach")] {
        let optimizer = json!({"name": name, "implementation": word});
        check(&[("/optimizer", optimizer)], &["optimizer.implementation Conflict"]);
    }
    let centered = json!({"name": "adafactor", "centered": true});
    check(&[("/optimizer", centered)], &["optimizer.centered Conflict"]);
    let full = json!("141 GiB");
    check(
        &[("/hardware/already_used_bytes", full.clone()), ("/hardware/process_cap_bytes", full)],
        &["hardware.already_used_bytes Range", "hardware.process_cap_bytes Range"],
    );
    check(&[("/hardware/process_cap_bytes", json!(0))], &["hardware.process_cap_bytes Range"]);
    check(&[("/stack", json!({"alloc_conf": "expandable_segments:True"}))], &[]);
    check(&[("/stack", json!({"alloc_conf": "max_split:3"}))], &["stack.alloc_conf Choice"]);
    check(&[("/model/id", json!("gpt2")), ("/workload/seq_len", json!(1024))], &[]);
    let changes = [("/model/id", json!("gpt2")), ("/workload/seq_len", json!(1025))];
    let faults = check(&changes, &["workload.seq_len Conflict"]);
    assert_eq!(faults.0[0].mends[0].value, 1024);
}

#[test]
fn a_scenario_built_by_hand_is_checked_as_well() {
    let mut scenario = read(SMALLEST, Format::Toml).unwrap();
    scenario.version = 7;
    scenario.workload.micro_batch = 0;
    scenario.workload.seq_len = u64::MAX;
    scenario.workload.grad_accum = u64::MAX;
    scenario.optimizer.momentum = Some(f64::NAN);
    let faults = validate(&scenario, &Catalog::builtin()).unwrap_err();
    let paths: Vec<_> = faults.0.iter().map(|fault| fault.path.as_str()).collect();
    for path in ["version", "workload.micro_batch", "workload.seq_len", "workload.grad_accum"] {
        assert!(paths.contains(&path), "{path}");
    }
    assert!(paths.contains(&"optimizer.momentum"));
}

#[test]
fn sequences_have_a_length_and_images_have_none() {
    let check = |model: &str, seq_len: u64, expected: &[&str]| {
        let changes = [("/model/id", json!(model)), ("/workload/seq_len", json!(seq_len))];
        check_validation(&changes, expected);
    };
    check("bert-base-uncased", 0, &["workload.seq_len Missing"]);
    check("bert-base-uncased", 513, &["workload.seq_len Conflict"]);
    check("roberta-base", 513, &["workload.seq_len Conflict"]);
    check("vit-base-patch16-224", 128, &["workload.seq_len Conflict"]);
}

#[test]
fn work_is_bounded() {
    let layers = [("/model/id", json!("llama-3.1-405b")), ("/workload/grad_accum", json!(131))];
    let faults = check_validation(&layers, &["workload.grad_accum Range"]);
    assert_eq!(faults.0[0].mends[0].value, 130);
    let tokens =
        [("/workload/micro_batch", json!(65_536)), ("/workload/seq_len", json!(16_777_216))];
    check_validation(&tokens, &["workload.seq_len Range"]);
    let scores =
        [("/workload/seq_len", json!(16_777_216)), ("/stack", json!({"attention": "eager"}))];
    check_validation(&scores, &["workload.seq_len Range"]);
    let large = [
        ("/model/id", json!("llama-3.1-405b")),
        ("/workload/micro_batch", json!(64)),
        ("/workload/seq_len", json!(131_072)),
    ];
    check_validation(&large, &[]);
}

#[test]
fn adapters_target_modules_that_the_class_has() {
    let adapter = |targets: &[&str]| json!({"rank": 16, "targets": targets});
    let check = |adapter: Value, expected: &[&str]| {
        check_validation(&[("/model/id", json!("llama-3.2-1b")), ("/adapter", adapter)], expected)
    };
    check(adapter(&["q_proj", "down_proj"]), &[]);
    check(adapter(&[]), &["adapter.targets Missing"]);
    let faults = check(adapter(&["q_proj", "v_prj"]), &["adapter.targets Choice"]);
    assert!(faults.0[0].message.contains("gate_proj"), "{faults}");
    assert_eq!(faults.0[0].mends[0].value, json!(["q_proj", "v_proj"]));
    check(adapter(&["c_attn"]), &["adapter.targets Choice"]);
    let gpt2 = [("/model/id", json!("gpt2")), ("/adapter", adapter(&["c_attn", "c_proj"]))];
    check_validation(&gpt2, &[]);
}

fn check_config(kind: &str, config: &Value, expected: &[&str]) -> Faults {
    check_validation(&[("/model", json!({"kind": kind, "config": config}))], expected)
}

#[test]
fn configurations_keep_the_rules_of_their_class() {
    let check = check_config;
    let at = "model.config";
    check("llama", &json!({}), &[]);
    let faults = check(
        "llama",
        &json!({"num_attention_heads": 7, "num_key_value_heads": 2}),
        &[
            &format!("{at}.num_attention_heads Divisible"),
            &format!("{at}.num_key_value_heads Divisible"),
        ],
    );
    let mends: Vec<_> = faults.0[0].mends.iter().map(|mend| mend.value.as_u64().unwrap()).collect();
    assert_eq!(mends, [4, 8]);
    // Llama's class insists on it even where `head_dim` is given; Mistral's does not.
    let odd_heads = json!({"num_attention_heads": 24, "head_dim": 128, "num_key_value_heads": 8});
    check("llama", &odd_heads, &[&format!("{at}.num_attention_heads Divisible")]);
    check("mistral", &odd_heads, &[]);
    check("qwen3", &json!({"head_dim": 33}), &[&format!("{at}.head_dim Divisible")]);
    check("gpt2", &json!({"n_head": 5}), &[&format!("{at}.n_head Divisible")]);
    check("gpt2", &json!({"hidden_size": 1024, "n_head": 16}), &[]);
    check(
        "gpt2",
        &json!({"hidden_size": 1024, "n_embd": 768}),
        &[&format!("{at}.hidden_size Conflict")],
    );
    check("llama", &json!({"model_type": "qwen2"}), &[&format!("{at}.model_type Conflict")]);
    check("llama", &json!({"attention_dropout": 1.0}), &[&format!("{at}.attention_dropout Range")]);
    check("gpt2", &json!({"n_layers": 3}), &[&format!("{at}.n_layers UnknownField")]);
    check("llama", &json!({"num_experts": 8}), &[&format!("{at}.num_experts Unsupported")]);
    check("llama", &json!({"hidden_act": "tanh"}), &[&format!("{at}.hidden_act Unsupported")]);
    check("llama", &json!({"rope_scaling": {"rope_type": "yarn"}, "anything": [1]}), &[]);
    let huge = json!({"hidden_size": 1_048_576, "intermediate_size": 1_048_576, "num_hidden_layers": 2000});
    check("llama", &huge, &["model Range"]);
}

fn llama_like(kind: &str, config: &Value) -> LlamaLike {
    let scenario = from_value(&document(&[("/model", json!({"kind": kind, "config": config}))]));
    let valid = validate(&scenario.unwrap(), &Catalog::builtin()).unwrap();
    match valid.architecture() {
        Architecture::Llama(model) => LlamaLike::clone(model),
        other => panic!("{other:?}"),
    }
}

#[test]
fn defaults_are_those_of_the_class() {
    let llama = llama_like("llama", &json!({"num_attention_heads": 16}));
    assert_eq!((llama.kv_heads, llama.head_dim, llama.intermediate), (16, 256, 11_008));
    let mistral = llama_like("mistral", &json!({"num_key_value_heads": null}));
    assert_eq!(mistral.kv_heads, 8, "a null is dropped on reading, as an absent field");
    let qwen2 = llama_like("qwen2", &json!({}));
    assert!(qwen2.qkv_bias && !qwen2.output_bias && !qwen2.qk_norm);
    let qwen3 = llama_like(
        "qwen3",
        &json!({"hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8}),
    );
    assert!(qwen3.head_dim == 128 && qwen3.qk_norm && !qwen3.qkv_bias);
    let biased = llama_like("llama", &json!({"attention_bias": true, "mlp_bias": true}));
    assert!(biased.qkv_bias && biased.output_bias && biased.mlp_bias);
    assert_eq!(qwen3.kind, ModelKind::Qwen3);
}

/// The files as published say more than the class reads.
#[test]
fn encoder_decoders() {
    let published = json!({
        "architectures": ["T5ForConditionalGeneration"], "d_ff": 1024, "d_kv": 64, "d_model": 512,
        "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1,
        "feed_forward_proj": "gated-gelu", "initializer_factor": 1.0, "is_encoder_decoder": true,
        "is_gated_act": true, "dense_act_fn": "gelu_new", "layer_norm_epsilon": 1e-6,
        "model_type": "t5", "n_positions": 512, "num_decoder_layers": 8, "num_heads": 6,
        "num_layers": 8, "output_past": true, "pad_token_id": 0,
        "relative_attention_max_distance": 128, "relative_attention_num_buckets": 32,
        "task_specific_params": {"summarization": {"num_beams": 4}}, "tie_word_embeddings": false,
        "use_cache": true, "vocab_size": 32128,
    });
    check_config("t5", &published, &[]);
    let at = "model.config";
    let check = |config: Value, expected: &str| {
        check_config("t5", &config, &[&format!("{at}.{expected}")]);
    };
    check(json!({"num_heads": 1}), "num_heads Unsupported");
    check(json!({"is_encoder_decoder": false}), "is_encoder_decoder Unsupported");
    check(json!({"feed_forward_proj": "gated-mish"}), "feed_forward_proj Unsupported");
    check(json!({"d_model": 64, "hidden_size": 128}), "hidden_size Conflict");
    let changes = [("/model/id", json!("t5-small")), ("/workload/target_len", json!(9))];
    check_validation(&changes, &[]);
    let changes = [("/model/id", json!("gpt2")), ("/workload/target_len", json!(9))];
    check_validation(&changes, &["workload.target_len Conflict"]);
}

#[test]
fn experts_and_latents() {
    let experts = |kind: &str, config: &Value| llama_like(kind, config).experts.unwrap();
    let mixtral = experts("mixtral", &json!({"num_experts": 4}));
    assert_eq!((mixtral.count, mixtral.top_k, mixtral.intermediate), (4, 2, 14_336));
    let qwen = experts("qwen3_moe", &json!({"mlp_only_layers": [1, 0]}));
    assert_eq!((qwen.count, qwen.intermediate, qwen.first_layer), (128, 768, 2));
    let qwen2 = experts("qwen2_moe", &json!({}));
    assert_eq!((qwen2.count, qwen2.shared, qwen2.shared_gate), (60, Some(5632), true));
    let deepseek = llama_like("deepseek_v3", &json!({"q_lora_rank": null}));
    assert_eq!((deepseek.head_dim, deepseek.rotary_dim()), (192, 64));
    assert_eq!(deepseek.latent.unwrap().query_rank, None, "a null is kept as 0");
    assert_eq!(deepseek.experts.unwrap().shared, Some(2048));
    let at = "model.config";
    let check = |kind: &str, config: Value, expected: &str| {
        check_config(kind, &config, &[&format!("{at}.{expected}")]);
    };
    check("mixtral", json!({"num_experts_per_tok": 9}), "num_experts_per_tok Range");
    check("mixtral", json!({"router_jitter_noise": 0.1}), "router_jitter_noise Unsupported");
    check("mixtral", json!({"output_router_logits": true}), "output_router_logits Unsupported");
    check("mixtral", json!({"kv_lora_rank": 512}), "kv_lora_rank Unsupported");
    check("qwen3_moe", json!({"mlp_only_layers": [1]}), "mlp_only_layers Unsupported");
    check("qwen3_moe", json!({"decoder_sparse_step": 2}), "decoder_sparse_step Unsupported");
    let window = json!({"use_sliding_window": true});
    check("qwen2_moe", window, "use_sliding_window Unsupported");
    check("deepseek_v3", json!({"n_group": 7}), "n_group Divisible");
    check("deepseek_v3", json!({"topk_group": 9}), "topk_group Range");
    check("deepseek_v3", json!({"num_key_value_heads": 8}), "num_key_value_heads Conflict");
}

#[test]
fn windows_and_bounds_of_gemma() {
    let read = |kind, config: Value| {
        let model = llama_like(kind, &config);
        let listed = model.sliding_window.and_then(|window| window.listed);
        (listed.unwrap_or_default(), model.gemma.expect("one of Gemma's classes"))
    };
    let (slides, gemma) = read("gemma2", json!({"num_hidden_layers": 3}));
    assert_eq!(slides, [true, false, true]);
    assert!(gemma.bounds_scores && gemma.bounds_logits && gemma.rotary_kinds == 1);
    let off = json!({"attn_logit_softcapping": null, "final_logit_softcapping": 0.0});
    let (_, gemma) = read("gemma2", off);
    assert!(!gemma.bounds_scores && !gemma.bounds_logits);
    let (slides, gemma) = read("gemma3_text", json!({"num_hidden_layers": 7}));
    assert_eq!(slides, [true, true, true, true, true, false, true]);
    assert!(!gemma.bounds_logits && gemma.rotary_kinds == 2);
    let (slides, gemma) =
        read("gemma3_text", json!({"num_hidden_layers": 3, "sliding_window_pattern": 4}));
    assert!(slides == [true; 3] && gemma.rotary_kinds == 1);
}

#[test]
fn positions_in_part_of_a_head() {
    let check = |config: Value, rotary_dim, long_from| {
        let model = llama_like("phi3", &config);
        let phi3 = model.phi3.expect("the class");
        assert_eq!((model.rotary_dim(), phi3.long_from), (rotary_dim, long_from), "{config}");
    };
    check(json!({}), 96, None);
    check(json!({"partial_rotary_factor": 0.75}), 72, None);
    check(json!({"rope_parameters": {"partial_rotary_factor": 0.4}}), 38, None);
    check(json!({"rope_scaling": {"type": "su"}, "rope_parameters": {}}), 96, Some(4_096));
    let rope = json!({"rope_type": "longrope", "partial_rotary_factor": 0.5});
    check(json!({"rope_scaling": rope, "original_max_position_embeddings": 512}), 48, Some(512));
}

#[test]
fn sliding_windows() {
    let window = |kind: &str, config: &Value| {
        llama_like(kind, config).sliding_window.map(|window| (window.tokens, window.first_layer))
    };
    assert_eq!(window("mistral", &json!({})), Some((4096, 0)));
    assert_eq!(window("mistral", &json!({"sliding_window": null})), None);
    assert_eq!(window("mistral", &json!({"sliding_window": 0})), None);
    assert_eq!(window("llama", &json!({"sliding_window": 4096})), None);
    assert_eq!(window("qwen2", &json!({"sliding_window": 4096})), None);
    let used = json!({"use_sliding_window": true, "max_window_layers": 20});
    assert_eq!(window("qwen2", &used), Some((4096, 20)));
    let beyond = json!({"use_sliding_window": true, "max_window_layers": 32});
    assert_eq!(window("qwen3", &beyond), None);
    let types = json!(["full_attention", "sliding_attention"]);
    let listed = json!({"use_sliding_window": true, "num_hidden_layers": 2, "layer_types": types});
    assert_eq!(window("qwen3", &listed), Some((4096, 1)));
    let path = "model.config.layer_types";
    let check = |types: Value, layers: u64, expected: &str| {
        let config =
            json!({"num_hidden_layers": layers, "layer_types": types, "use_sliding_window": true});
        check_config("qwen2", &config, &[expected]);
    };
    check(json!(["full_attention"]), 2, &format!("{path} Conflict"));
    check(json!(["linear_attention"]), 1, &format!("{path}.0 Choice"));
    check(json!("full_attention"), 1, &format!("{path} Type"));
    let off = json!({"num_hidden_layers": 1, "layer_types": ["sliding_attention"]});
    check_config("qwen2", &off, &[&format!("{path} Conflict")]);
}

#[test]
fn notes_say_what_was_never_measured_or_trained() {
    let changes = [
        ("/hardware/gpu", json!("a100-sxm-80gb")),
        ("/model/id", json!("llama-2-7b")),
        ("/workload/seq_len", json!(8192)),
    ];
    let scenario = from_value(&document(&changes)).unwrap();
    let valid = validate(&scenario, &Catalog::builtin()).unwrap();
    let topics: Vec<Topic> = valid.notes().iter().map(|note| note.topic).collect();
    assert_eq!(topics, [Topic::PositionsExceeded, Topic::NeverMeasured, Topic::UnverifiedGpu]);
}

/// Kinds without sequences.
const READS_IMAGES: [ModelKind; 2] = [ModelKind::Vit, ModelKind::Torchvision];

#[test]
fn every_model_of_the_catalog_is_valid_and_has_the_published_parameters() {
    let catalog = Catalog::builtin();
    for card in &catalog.models {
        let seq_len = if READS_IMAGES.contains(&card.kind) { 0 } else { 128 };
        let changes = [("/model/id", json!(card.id)), ("/workload/seq_len", json!(seq_len))];
        let scenario = from_value(&document(&changes)).unwrap();
        let valid = validate(&scenario, &catalog).unwrap();
        let computed = valid.family().parameters();
        let published = card.published_parameters.map_or(computed, u128::from);
        assert_eq!(computed, published, "{}", card.id);
        let window = match valid.architecture() {
            Architecture::Llama(model) => model.sliding_window.clone().map(|window| window.tokens),
            _ => None,
        };
        let expected = match card.kind {
            ModelKind::Gemma2 | ModelKind::Gemma3Text | ModelKind::Phi3 => {
                card.config["sliding_window"].as_u64().filter(|&tokens| 0 < tokens)
            }
            _ => (card.id == "mistral-7b-v0.1").then_some(4096),
        };
        assert_eq!(window, expected, "{}", card.id);
    }
}
