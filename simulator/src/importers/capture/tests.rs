//! Cases as `measure/case.py` takes them.

use serde_json::json;

use super::*;
use crate::catalog::Catalog;
use crate::scenario::{adapter_parameters, validate};

/// The `case` of every capture of the ground truth, with the process's own parameter count.
const CAPTURES: &str = include_str!("cases.jsonl");

#[test]
fn captures_are_scenarios_of_as_many_parameters_or_unsupported() {
    let catalog = Catalog::builtin();
    let (mut read, mut ranks) = (0, 0);
    for line in CAPTURES.lines() {
        let capture: Value = serde_json::from_str(line).unwrap();
        let (case, id) = (&capture["case"], capture["case"]["id"].as_str().unwrap());
        match capture_case(case, "NVIDIA H200") {
            Ok(scenario) => {
                let valid = validate(&scenario, &catalog).unwrap();
                let adapter = valid.document().adapter.as_ref();
                let added = adapter.map_or(0, |a| adapter_parameters(valid.family(), a));
                let computed = valid.family().parameters() + added;
                let counted = capture["parameters"].as_u64().map(u128::from);
                // Captures of Megatron-core count a rank's parameters alone.
                if id.starts_with("mg-") {
                    ranks += 1;
                } else {
                    assert_eq!(Some(computed), counted, "{id}");
                    read += 1;
                }
            }
            Err(faults) => {
                assert!(faults.0.iter().all(|fault| fault.rule == Rule::Unsupported), "{faults}");
                let ours = [
                    "llama", "gpt2", "qwen0", "qwen3", "mixs", "dsv3", "bertl", "opt350", "vitl",
                    "t5l", "resnet",
                ];
                let ours = ours.iter().any(|k| id.starts_with(k));
                let other = ["-infer"];
                assert!(!ours || other.iter().any(|kind| id.contains(kind)), "{id}: {faults}");
            }
        }
    }
    assert_eq!((read, ranks), (47, 11));
}

fn case(changes: &Value) -> Value {
    let mut case = json!({
        "id": "a", "model": {"kind": "llama", "config": {"hidden_size": 2048}},
        "micro_batch": 2, "seq_len": 4096, "precision": "bf16"
    });
    for (key, value) in changes.as_object().unwrap() {
        case[key] = value.clone();
    }
    case
}

fn read(changes: &Value) -> Scenario {
    let scenario = capture_case(&case(changes), "NVIDIA H200").unwrap();
    let valid = validate(&scenario, &Catalog::builtin()).unwrap();
    assert_eq!(valid.document().hardware.gpu, "h200-sxm");
    scenario
}

#[test]
fn defaults_are_the_programs() {
    let scenario = read(&json!({}));
    assert_eq!(scenario.optimizer, Optimizer::default());
    assert_eq!(scenario.stack, Stack { tf32: true, ..Stack::default() });
    assert_eq!(scenario.workload.grad_accum, 1);
    assert_eq!(scenario.name.as_deref(), Some("a"));
}

#[test]
fn torchvision_models_take_their_images_from_the_case() {
    let torchvision = |changes: &Value| {
        let mut case = json!({
            "id": "a", "model": {"kind": "torchvision", "config": {"name": "regnet_y_400mf"}},
            "micro_batch": 2, "precision": "fp32", "image": 96, "channels_last": true
        });
        for (key, value) in changes.as_object().unwrap() {
            case[key] = value.clone();
        }
        capture_case(&case, "NVIDIA H200")
    };
    let scenario = torchvision(&json!({})).unwrap();
    let Model::Inline { kind, config } = &scenario.model else { panic!("inline") };
    assert_eq!((*kind, &config["image_size"]), (ModelKind::Torchvision, &json!(96)));
    assert!(scenario.stack.channels_last);
    validate(&scenario, &Catalog::builtin()).unwrap();
    let faults = torchvision(&json!({"precision": "bf16"})).unwrap_err();
    assert_eq!(faults.0[0].path, "case.precision");
}

#[test]
fn options_are_carried_over() {
    let scenario = read(&json!({
        "precision": "amp_fp16", "attn": "eager", "ckpt": "full", "grad_accum": 4, "clip": true,
        "lora": {"r": 8, "targets": ["o_proj"]}, "set_to_none": false, "env": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    }));
    assert_eq!(scenario.precision, Precision::AmpFp16);
    assert_eq!(scenario.stack.attention, Attention::Eager);
    assert_eq!(scenario.stack.alloc_conf, "expandable_segments:True");
    assert_eq!(scenario.checkpointing, Checkpointing::Full);
    let (kind, targets) = (AdapterKind::Lora, Vec::from(["o_proj".to_owned()]));
    let adapter = Adapter {
        kind,
        rank: 8,
        targets,
        dropout: 0.0,
        autocast: true,
        base: crate::wire::scenario::BaseFormat::Whole,
        base_head: false,
        stable_embedding: false,
    };
    assert_eq!(scenario.adapter, Some(adapter));
    assert_eq!(scenario.workload.grad_accum, 4);
    assert!(scenario.optimizer.clip_grad_norm && !scenario.optimizer.set_to_none);
}

#[test]
fn implementations_are_chosen_as_pytorch_does() {
    let check = |optimizer: Value, expected: Implementation, momentum: Option<f64>| {
        let scenario = read(&json!({ "optimizer": optimizer }));
        assert_eq!(scenario.optimizer.implementation, expected);
        assert_eq!(scenario.optimizer.momentum, momentum);
    };
    check(json!({"name": "adamw"}), Implementation::Foreach, None);
    check(json!({"name": "adamw", "fused": true}), Implementation::Fused, None);
    check(json!({"name": "adamw", "foreach": false}), Implementation::Loop, None);
    check(json!({"name": "adamw", "fused": false}), Implementation::Loop, None);
    check(json!({"name": "adamw", "fused": false, "foreach": true}), Implementation::Foreach, None);
    check(json!({"name": "sgd"}), Implementation::Foreach, Some(0.9));
    check(json!({"name": "sgd", "momentum": 0.0}), Implementation::Foreach, Some(0.0));
    check(json!({"name": "sgd", "fused": true}), Implementation::Foreach, Some(0.9));
    // The program gives these none of its options.
    check(json!({"name": "adafactor", "foreach": true}), Implementation::Loop, None);
    check(json!({"name": "rmsprop", "foreach": false}), Implementation::Foreach, None);
}

#[test]
fn what_no_scenario_says_is_unsupported_with_its_path() {
    let check = |changes: Value, path: &str| {
        let faults = capture_case(&case(&changes), "h200-sxm").unwrap_err();
        assert_eq!(faults.0[0].path, path, "{faults}");
        assert!(faults.0.iter().all(|fault| fault.rule == Rule::Unsupported), "{faults}");
    };
    check(json!({"lora": {"r": 16, "targets": [], "alpha": 8}}), "case.lora.alpha");
    check(json!({"world": 8, "parallel": {"pp": 8}}), "case.parallel.pp");
    check(json!({"world": 8}), "case.world");
    check(json!({"mode": "infer", "use_cache": true}), "case.use_cache");
    check(json!({"model": {"kind": "mamba", "config": {}}}), "case.model.kind");
    check(json!({"model": {"layers": 24, "hidden": 2048}}), "case.model.kind");
    check(json!({"optimizer": {"name": "lion"}}), "case.optimizer.name");
    check(json!({"optimizer": {"name": "adam"}}), "case.optimizer.name");
    check(json!({"precision": "fp8"}), "case.precision");
    check(json!({"param_dtype": "fp16"}), "case.param_dtype");
    check(json!({"env": {"CUDA_LAUNCH_BLOCKING": "1"}}), "case.env.CUDA_LAUNCH_BLOCKING");
    check(json!({"something_new": 1}), "case.something_new");
}

#[test]
fn a_case_that_is_no_table_is_a_type_fault() {
    assert_eq!(capture_case(&json!(3), "h200-sxm").unwrap_err().0[0].rule, Rule::Type);
}
