//! Random documents: what is written reads back, and nothing panics.

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;
use crate::catalog::Catalog;
use crate::wire::ModelKind;
use crate::wire::parallel::{Ddp, Fsdp, Parallel, Zero};
use crate::wire::scenario::{
    Adapter, AdapterKind, BaseFormat, Hardware, Model, Optimizer, Stack, Workload,
};

fn choice<T: Word + core::fmt::Debug>() -> impl Strategy<Value = T> {
    prop::sample::select(T::WORDS.iter().map(|(_, choice)| *choice).collect::<Vec<T>>())
}

/// Any value that both formats can hold.
fn portable_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0..=1_u64 << 53).prop_map(Value::from),
        (-1_000_000_i64..0).prop_map(Value::from),
        (-1e12..1e12_f64).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec(("[a-z_]{1,8}", inner), 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn model() -> impl Strategy<Value = Model> {
    let key = prop_oneof![
        "[a-zA-Z_. \"-]{0,10}",
        prop::sample::select(Vec::from([
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "head_dim",
            "n_embd",
            "layer_types",
            "sliding_window",
            "use_sliding_window",
            "model_type",
            "hidden_act",
        ]))
        .prop_map(String::from),
    ];
    let config = prop::collection::vec((key, portable_value()), 0..6)
        .prop_map(|fields| fields.into_iter().collect::<Map<String, Value>>());
    prop_oneof![
        ".{0,20}".prop_map(|id| Model::Catalog { id }),
        (choice::<ModelKind>(), config).prop_map(|(kind, config)| Model::Inline { kind, config }),
    ]
}

prop_compose! {
    fn hardware()(
        gpu in "[a-z0-9-]{0,12}",
        count in limits::GPU_COUNT,
        already_used_bytes in limits::MEMORY_BYTES,
        process_cap_bytes in prop::option::of(0..=u64::MAX >> 2),
    ) -> Hardware {
        Hardware { gpu, count, already_used_bytes, process_cap_bytes }
    }
}

prop_compose! {
    fn parallel()(
        [tensor, pipeline, virtual_stages, expert, context] in
            prop::array::uniform5(limits::GPU_COUNT),
        stage in 0..=*limits::GPU_COUNT.end(),
        sequence: bool,
        data in prop::option::of(choice()),
        (bucket_cap_mb, first_bucket_mb, bucket_view) in
            (limits::BUCKET_MB, limits::BUCKET_MB, any::<bool>()),
        flags: [bool; 4],
        reduce_dtype in prop::option::of(choice()),
    ) -> Parallel {
        let ddp = Ddp { bucket_cap_mb, bucket_view, first_bucket_mb };
        let [reshard_after_forward, mixed_precision, cpu_offload, meta_init] = flags;
        let fsdp =
            Fsdp { reshard_after_forward, mixed_precision, reduce_dtype, cpu_offload, meta_init, ..Fsdp::default() };
        let zero = Zero {
            reduce_bucket_size: 1 + (bucket_cap_mb << 8),
            prefetch_bucket_size: first_bucket_mb,
            overlap_comm: Some(bucket_view),
            grad_accum_dtype: reduce_dtype,
            ..Zero::default()
        };
        Parallel {
            tensor, sequence, pipeline, virtual_stages, expert, context, stage, data, ddp, fsdp, zero,
        }
    }
}

prop_compose! {
    fn optimizer()(
        name in choice(),
        implementation in choice(),
        momentum in prop::option::of(limits::MOMENTUM),
        clip_grad_norm: bool,
        set_to_none: bool,
    ) -> Optimizer {
        Optimizer { name, implementation, momentum, clip_grad_norm, set_to_none, ..Optimizer::default() }
    }
}

prop_compose! {
    fn adapter()(
        rank in limits::ADAPTER_RANK,
        targets in prop::collection::vec(".{0,12}", 0..3),
        dropout in limits::DROPOUT,
    ) -> Adapter {
        Adapter { kind: AdapterKind::Lora, rank, targets, dropout, autocast: true, base: BaseFormat::Whole, base_head: false, stable_embedding: false }
    }
}

prop_compose! {
    fn scenario()(
        name in prop::option::of(".{0,20}"),
        model in model(),
        (hardware, parallel) in (hardware(), parallel()),
        (micro_batch, seq_len, target_len, grad_accum) in
            (limits::MICRO_BATCH, limits::SEQ_LEN, limits::SEQ_LEN, limits::GRAD_ACCUM),
        precision in choice(),
        optimizer in optimizer(),
        (checkpointing, adapter) in (choice(), prop::option::of(adapter())),
        (framework, attention, loss, tf32, channels_last, alloc_conf) in
            (choice(), choice(), choice(), any::<bool>(), any::<bool>(), "[a-z_:,]{0,12}"),
    ) -> Scenario {
        let workload = Workload { micro_batch, seq_len, target_len, grad_accum };
        let stack = Stack { framework, attention, loss, tf32, channels_last, alloc_conf, ..Stack::default() };
        let version = 1;
        Scenario {
            version, name, model, hardware, parallel, workload, precision, optimizer, checkpointing, adapter,
            stack,
        }
    }
}

/// Any JSON, often with the names of real fields.
fn document() -> impl Strategy<Value = Value> {
    let names = Vec::from([
        "version",
        "model",
        "id",
        "kind",
        "config",
        "hardware",
        "gpu",
        "count",
        "workload",
        "micro_batch",
        "seq_len",
        "optimizer",
        "momentum",
        "stack",
        "alloc_conf",
        "precision",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![Just(1_u64), any::<u64>()].prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(Vec::from(["llama", "gpt2", "h200-sxm", "bf16", "2 GiB", ""]))
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 8, move |inner| {
        let key = prop::sample::select(names.clone()).prop_map(String::from);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back(scenario in scenario()) {
        let toml = to_toml(&scenario).unwrap();
        prop_assert_eq!(&read(&toml, Format::Toml).unwrap(), &scenario, "{}", toml);
        let json = to_json(&scenario).unwrap();
        prop_assert_eq!(&read(&json, Format::Json).unwrap(), &scenario, "{}", json);
    }

    #[test]
    fn validation_answers_every_scenario(scenario in scenario()) {
        match validate(&scenario, &Catalog::builtin()) {
            Ok(valid) => prop_assert!(0 < valid.family().parameters()),
            Err(faults) => prop_assert!(!faults.is_empty()),
        }
    }

    #[test]
    fn reading_answers_every_document(document in document()) {
        if let Err(faults) = from_value(&document) {
            prop_assert!(!faults.is_empty());
        }
    }

    #[test]
    fn reading_answers_every_text(text in ".{0,200}", bytes: Vec<u8>) {
        for text in [text.as_str(), &String::from_utf8_lossy(&bytes)] {
            prop_assert!(read(text, Format::Toml).is_err());
            prop_assert!(read(text, Format::Json).is_err());
            parse_size(text);
        }
    }
}
