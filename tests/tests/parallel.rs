//! What must hold for one rank of several, whatever the model is.

use proptest::prelude::*;
use serde_json::{Value, json};
use simulator::catalog::Catalog;
use simulator::program::Process;
use simulator::scenario::{ValidScenario, check};
use simulator::wire::timeline::Category;

/// A small model of Llama's kind with sizes that `ranks` divides.
fn llama(ranks: u64, units: [u64; 4], tied: bool) -> Value {
    let [kv_heads, groups, width, vocab] = units;
    let kv_heads = kv_heads * ranks;
    json!({
        "kind": "llama",
        "config": {
            "hidden_size": kv_heads * groups * width, "intermediate_size": 3 * width * ranks,
            "num_hidden_layers": 2, "num_attention_heads": kv_heads * groups,
            "num_key_value_heads": kv_heads, "head_dim": 8, "vocab_size": vocab * ranks,
            "tie_word_embeddings": tied,
        },
    })
}

fn scenario(model: &Value, count: u64, parallel: &Value) -> ValidScenario {
    let document = json!({
        "version": 1,
        "model": model,
        "hardware": {"gpu": "h200-sxm", "count": count},
        "parallel": parallel,
        "workload": {"micro_batch": 1, "seq_len": 16},
    });
    check(&document, &Catalog::builtin()).unwrap_or_else(|faults| panic!("{faults}"))
}

/// Each parameter's name, elements of all ranks, elements of this rank.
fn sizes(scenario: &ValidScenario) -> Vec<(String, u64, u64)> {
    let (process, _) = Process::build(scenario);
    process.parameter_sizes()
}

/// Bytes that a rank keeps between steps: weights, states, gradients; stage 3's buffers apart.
fn kept(scenario: &ValidScenario) -> [u64; 2] {
    let (mut process, _) = Process::build(scenario);
    process.step();
    let record = process.step().record;
    let of = |category| {
        let storages = record.storages[..record.n_before].iter();
        storages.filter(|storage| storage.category == category).map(|storage| storage.bytes).sum()
    };
    [Category::Weights, Category::OptimizerStates].map(of)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 40, ..ProptestConfig::default() })]

    /// The ranks' parts of every weight add up to the whole model's; what is not dealt out is whole.
    #[test]
    fn tensor_parallel_parts_add_up(
        ranks in 2..=8_u64,
        units in [1..=2_u64, 1..=3, 1..=16, 10..=60],
        tied: bool,
    ) {
        let model = llama(ranks, units, tied);
        let whole = sizes(&scenario(&model, 1, &json!({})));
        let parts = sizes(&scenario(&model, ranks, &json!({"tensor": ranks})));
        // A tie is broken: the output projection becomes a parameter of its own.
        prop_assert_eq!(parts.len(), whole.len() + usize::from(tied));
        for ((name, all, kept), (same, size, _)) in parts.iter().zip(&whole) {
            prop_assert_eq!(name, same);
            prop_assert_eq!(all, size, "{}", name);
            let is_shared = name.contains("_proj.") || name.starts_with("lm_head");
            prop_assert_eq!(*kept, if is_shared { size / ranks } else { *size }, "{}", name);
        }
    }

    /// Each of DeepSpeed's stages shares out more: no category of what a rank keeps ever grows.
    #[test]
    fn stages_only_ever_lower_what_is_kept(
        units in [1..=2_u64, 1..=3, 1..=16, 10..=60],
        ranks in 2..=16_u64,
        offload: bool,
        fp32_sums: bool,
    ) {
        let model = llama(1, units, false);
        let sum = fp32_sums.then_some("fp32");
        let zero = json!({
            "reduce_bucket_size": 4096, "param_persistence_threshold": 0,
            "offload_optimizer": offload, "grad_accum_dtype": sum.unwrap_or("bf16"),
        });
        let kept = |stage: &str| kept(&scenario(&model, ranks, &json!({"data": stage, "zero": zero})));
        let [one, two, three] = ["zero1", "zero2", "zero3"].map(kept);
        // Parts are rounded up once for all weights, or for each of them.
        let slack = 512 * 4 * ranks;
        for (name, first, second) in [("2", &one, &two), ("3", &two, &three)] {
            for (more, less) in first.iter().zip(second) {
                prop_assert!(*less <= more + slack, "stage {}: {:?} {:?}", name, first, second);
            }
        }
    }

    /// The ranks' parts of every parameter cover it, with less than one row of padding a rank; more
    /// ranks never make a rank keep more.
    #[test]
    fn more_ranks_never_keep_more(
        units in [1..=2_u64, 1..=3, 1..=16, 10..=60],
        ranks in 2..=16_u64,
        more in 1..=16_u64,
    ) {
        let model = llama(1, units, false);
        let whole = sizes(&scenario(&model, 1, &json!({})));
        let fsdp = json!({"data": "fsdp2"});
        let few = sizes(&scenario(&model, ranks, &fsdp));
        let many = sizes(&scenario(&model, ranks + more, &fsdp));
        for (((name, size, _), (.., few)), (.., many)) in whole.iter().zip(&few).zip(&many) {
            prop_assert!(*size <= few * ranks, "{}", name);
            prop_assert!(many <= few, "{}", name);
        }
    }
}
