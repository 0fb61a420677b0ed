//! Generated scenarios: every choice of the format, small models and those of the catalog.

use serde_json::{Value, json};
use simulator::catalog::Catalog;
use simulator::scenario::Word;
use simulator::wire::ModelKind;
use simulator::wire::scenario::{Loss, OptimizerName, Precision};

/// How many scenarios there are.
pub const N_SCENARIOS: u32 = 200;

/// Scenario `index`, always the same.
pub fn scenario(index: u32, catalog: &Catalog) -> Value {
    let mut dice = Dice(u64::from(index));
    let gpu = &catalog.gpus[dice.below(catalog.gpus.len())];
    let (word, name) = *dice.of(OptimizerName::WORDS);
    let mut optimizer = json!({
        "name": word,
        "implementation": dice.of(name.implementations()).word(),
        "clip_grad_norm": dice.coin(),
        "set_to_none": dice.coin(),
    });
    if name.has_momentum() && dice.coin() {
        optimizer["momentum"] = json!(0.9);
    }
    let mut hardware = json!({"gpu": gpu.id, "already_used_bytes": dice.below(3) << 29});
    if dice.coin() {
        let eighths = 1 + dice.below(8) as u64;
        hardware["process_cap_bytes"] = json!((gpu.usable_mib << 20) / 8 * eighths);
    }
    let model = model(&mut dice, catalog);
    let longest = longest(&model, catalog);
    let is_convolutional = kind(&model, catalog) == Some(ModelKind::Torchvision);
    let parallel = if dice.coin() {
        hardware["count"] = json!(4);
        layout(&mut dice, is_convolutional, name)
    } else {
        json!({})
    };
    let precision = precision(&mut dice, &parallel);
    json!({
        "version": 1,
        "name": format!("corpus {index}"),
        "model": model,
        "hardware": hardware,
        "parallel": parallel,
        "workload": {
            "micro_batch": 1 + dice.below(6),
            "seq_len": (1 + dice.below(1024)).min(longest),
            "grad_accum": 1 + dice.below(3),
        },
        "precision": precision,
        "optimizer": optimizer,
        "checkpointing": if is_convolutional { "none" } else { dice.of(&["none", "full"]) },
        "stack": {
            "attention": dice.of(&["sdpa", "eager"]),
            "loss": dice.word::<Loss>(),
            "alloc_conf": dice.of(&[
                "",
                "expandable_segments:True",
                "max_split_size_mb:128",
                "roundup_power2_divisions:4",
                "garbage_collection_threshold:0.8",
            ]),
        },
    })
}

/// How four GPUs share the work: of what can be simulated with this model and optimizer.
fn layout(dice: &mut Dice, is_convolutional: bool, optimizer: OptimizerName) -> Value {
    let mut layouts = vec![json!({"data": "ddp", "ddp": {"bucket_view": true}})];
    if !is_convolutional && optimizer.is_elementwise() {
        let fsdp = json!({"mixed_precision": true, "reduce_dtype": "fp32"});
        layouts.push(json!({"data": "fsdp2", "fsdp": fsdp}));
    }
    if !is_convolutional && matches!(optimizer, OptimizerName::Adamw | OptimizerName::Sgd) {
        layouts.extend(["zero1", "zero2", "zero3"].map(|data| json!({"data": data})));
    }
    dice.of(&layouts).clone()
}

/// One of the precisions that can be simulated with this layout.
fn precision(dice: &mut Dice, layout: &Value) -> &'static str {
    let is_zero = layout["data"].as_str().is_some_and(|data| data.starts_with("zero"));
    let has = |precision| match precision {
        Precision::Fp32 | Precision::Bf16 => true,
        Precision::Fp16 => is_zero,
        Precision::AmpBf16 | Precision::AmpFp16 => !is_zero,
    };
    let words = Precision::WORDS.iter().filter(|pair| has(pair.1));
    let words: Vec<&str> = words.map(|(word, _)| *word).collect();
    words[dice.below(words.len())]
}

/// Tokens that a model of the catalog takes; none where it reads images.
fn longest(model: &Value, catalog: &Catalog) -> usize {
    match kind(model, catalog) {
        Some(ModelKind::Vit | ModelKind::Torchvision) => 0,
        Some(ModelKind::Bert | ModelKind::Roberta) => 512,
        _ => 1024,
    }
}

/// The class of a model of the catalog.
fn kind(model: &Value, catalog: &Catalog) -> Option<ModelKind> {
    let card = model["id"].as_str().and_then(|id| catalog.model(id));
    card.map(|card| card.kind)
}

/// A quarter from the catalog, where shapes are real; the rest small and odd.
fn model(dice: &mut Dice, catalog: &Catalog) -> Value {
    if dice.below(4) == 0 {
        return json!({"id": catalog.models[dice.below(catalog.models.len())].id});
    }
    let kv_heads = 1 + dice.below(4);
    let heads = kv_heads * (1 + dice.below(4));
    let head_dim = 8 * (1 + dice.below(16));
    let layers = 1 + dice.below(6);
    let vocab = 100 + dice.below(60_000);
    let kind =
        *dice.of(&["llama", "mistral", "qwen2", "qwen3", "gpt2", "gemma2", "gemma3_text", "phi3"]);
    let config = if kind == "gpt2" {
        json!({
            "n_embd": heads * head_dim, "n_head": heads, "n_layer": layers, "vocab_size": vocab,
            "n_positions": 1024,
        })
    } else {
        json!({
            "hidden_size": heads * head_dim, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "head_dim": head_dim, "num_hidden_layers": layers,
            "intermediate_size": 16 * (1 + dice.below(200)), "vocab_size": vocab,
            "tie_word_embeddings": dice.coin(),
        })
    };
    json!({"kind": kind, "config": config})
}

/// `SplitMix64`: short, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which is small: the bias of the remainder does not matter here.
    fn below(&mut self, n: usize) -> usize {
        // The low half is enough, and fits `usize` on both targets.
        let low = u32::try_from(self.next() & 0x7fff_ffff).unwrap_or(0);
        usize::try_from(low).unwrap_or(0) % n
    }

    fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// One of a choice's words, so that a new one is in the corpus at once.
    fn word<T: Word>(&mut self) -> &'static str {
        self.of(T::WORDS).0
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}
