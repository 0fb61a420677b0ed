//! What the options that save memory really save.

use proptest::prelude::*;
use serde_json::{Value, json};
use simulator::catalog::Catalog;
use simulator::program::{Process, Run};
use simulator::scenario::check;
use simulator::wire::timeline::Category;

/// A steady step of a small model of Llama's kind.
fn steady([heads, width, layers, vocab]: [u64; 4], changes: &Value) -> Run {
    let mut document = json!({
        "version": 1,
        "model": {"kind": "llama", "config": {
            "hidden_size": heads * 16, "intermediate_size": width, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": heads, "vocab_size": vocab,
        }},
        "hardware": {"gpu": "h200-sxm"},
        "workload": {"micro_batch": 2, "seq_len": 64},
    });
    for (key, value) in changes.as_object().into_iter().flatten() {
        document[key] = value.clone();
    }
    let valid = check(&document, &Catalog::builtin()).unwrap_or_else(|faults| panic!("{faults}"));
    let (mut process, _) = Process::build(&valid);
    process.step();
    process.step()
}

/// Highest sum of live bytes, of one category or of all.
fn peak(run: &Run, category: Option<Category>) -> u64 {
    let record = &run.record;
    let counts =
        |storage: &simulator::tape::Storage| category.is_none_or(|one| storage.category == one);
    let before = record.storages[..record.n_before].iter();
    let mut live: u64 = before.filter(|storage| counts(storage)).map(|storage| storage.bytes).sum();
    let mut peak = live;
    for request in &record.requests {
        let storage = &record.storages[request.storage().index()];
        if counts(storage) {
            live = if request.is_alloc() { live + storage.bytes } else { live - storage.bytes };
            peak = peak.max(live);
        }
    }
    peak
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 30, ..ProptestConfig::default() })]

    /// No gradient outlives the next one, so that their peak is the largest of them.
    #[test]
    fn an_optimizer_in_backward_keeps_one_gradient(
        sizes in [1..=4_u64, 16..=200, 1..=4, 50..=500],
        name in prop::sample::select(vec!["adamw", "sgd", "adafactor", "rmsprop", "lion", "adamw8bit"]),
    ) {
        let optimizer = |in_backward| json!({"optimizer": {"name": name, "in_backward": in_backward}});
        let [usual, fused] = [false, true].map(|on| steady(sizes, &optimizer(on)));
        let [heads, width, _, vocab] = sizes;
        let largest = 2 * 16 * heads * width.max(vocab).max(16 * heads);
        prop_assert_eq!(peak(&fused, Some(Category::Gradients)), largest);
        // Each of bitsandbytes' optimizers has tables of its own.
        prop_assert!(name == "adamw8bit" || peak(&fused, None) <= peak(&usual, None));
    }

    /// Nothing of the forward waits on the device: it is never more than without, and the deeper the
    /// model the less.
    #[test]
    fn activations_in_host_memory_do_not_add_up(sizes in [1..=4_u64, 16..=200, 1..=2, 50..=500]) {
        let [heads, width, _, vocab] = sizes;
        let activations = |layers, on| {
            let run = steady([heads, width, layers, vocab], &json!({"stack": {"activation_offload": on}}));
            peak(&run, Some(Category::Activations))
        };
        let [usual, more] = [2, 6].map(|layers| activations(layers, false));
        let [few, many] = [2, 6].map(|layers| activations(layers, true));
        prop_assert!(usual < more);
        prop_assert_eq!(few, many);
    }
}
