//! What must hold for every scenario, tried on random small ones.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use serde_json::{Map, Value, json};
use simulator::catalog::Catalog;
use simulator::scenario::{ValidScenario, Word, limits, validate};
use simulator::units::Bytes;
use simulator::wire::model::ModelKind;
use simulator::wire::parallel::{DataParallel, Ddp, Fsdp, Parallel, ReduceDtype};
use simulator::wire::report::{Outcome, PhaseReport, StepReport};
use simulator::wire::scenario::{
    Adapter, AdapterKind, Checkpointing, Hardware, Model, Optimizer, OptimizerName, Precision,
    SCENARIO_VERSION, Stack, Workload,
};
use simulator::wire::timeline::{BEFORE, Category, NEVER, PhaseKind};
use simulator::wire::{Scenario, Timeline};
use simulator::{Simulation, simulate};

static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::builtin);

const MIB: u64 = 1 << 20;

fn choice<T: Word + core::fmt::Debug + 'static>() -> impl Strategy<Value = T> {
    prop::sample::select(T::WORDS.iter().map(|(_, choice)| *choice).collect::<Vec<T>>())
}

fn one_of<T: Clone + core::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> {
    prop::sample::select(values.to_vec())
}

prop_compose! {
    fn llama_like()(
        width in 5..=32_u64,
        kv_heads in 1..=4_u64,
        groups in 1..=4_u64,
        head_dim in one_of(&[8_u64, 16, 20, 32, 64, 264]),
        layers in 1..=4_u64,
        vocab in 100..=2_000_u64,
        tied: bool,
        window in prop::option::of((1..=300_u64, 0..=4_u64)),
    ) -> Map<String, Value> {
        let hidden = kv_heads * groups * width;
        let mut config = json!({
            "hidden_size": hidden, "intermediate_size": 3 * hidden, "num_hidden_layers": layers,
            "num_attention_heads": kv_heads * groups, "num_key_value_heads": kv_heads,
            "head_dim": head_dim, "vocab_size": vocab, "tie_word_embeddings": tied,
        });
        if let Some((tokens, from)) = window {
            config["use_sliding_window"] = true.into();
            config["sliding_window"] = tokens.into();
            config["max_window_layers"] = from.into();
        }
        config.as_object().cloned().unwrap_or_default()
    }
}

prop_compose! {
    fn gpt2()(
        heads in 1..=8_u64,
        head_dim in one_of(&[8_u64, 16, 31, 64]),
        layers in 1..=4_u64,
        vocab in 100..=2_000_u64,
        tied: bool,
        dropout in one_of(&[0.0, 0.1]),
    ) -> Map<String, Value> {
        let config = json!({
            "n_embd": heads * head_dim, "n_head": heads, "n_layer": layers, "vocab_size": vocab,
            "tie_word_embeddings": tied, "embd_pdrop": dropout, "attn_pdrop": dropout,
            "resid_pdrop": dropout,
        });
        config.as_object().cloned().unwrap_or_default()
    }
}

/// A Llama-like model with experts in place of its MLPs.
fn mixture(kind: ModelKind) -> impl Strategy<Value = Map<String, Value>> {
    let shape = (2..=9_u64, 1..=2_u64, 0..=1_u64, any::<bool>());
    (llama_like(), shape).prop_map(move |(mut config, (experts, top_k, plain, normalized))| {
        let key = if kind == ModelKind::Mixtral { "num_local_experts" } else { "num_experts" };
        config.insert(key.to_owned(), experts.into());
        config.insert("num_experts_per_tok".to_owned(), top_k.into());
        if kind == ModelKind::Qwen2Moe {
            config.remove("use_sliding_window");
        }
        if kind != ModelKind::Mixtral {
            config.insert("moe_intermediate_size".to_owned(), 24.into());
            config.insert("norm_topk_prob".to_owned(), normalized.into());
            config.insert("mlp_only_layers".to_owned(), (0..plain).collect());
        }
        config
    })
}

/// A Llama-like model with windows in some layers, bounds or none, and rotary tables of each kind.
fn gemma(kind: ModelKind) -> impl Strategy<Value = Map<String, Value>> {
    let shape =
        (1..=3_u64, 1..=64_u64, any::<[bool; 2]>(), prop::collection::vec(any::<bool>(), 1..5));
    (llama_like(), shape).prop_map(move |(mut config, (period, window, bounds, slides))| {
        for field in ["use_sliding_window", "max_window_layers"] {
            config.remove(field);
        }
        config.insert("sliding_window".to_owned(), window.into());
        for (key, bounded) in
            ["attn_logit_softcapping", "final_logit_softcapping"].iter().zip(bounds)
        {
            config.insert((*key).to_owned(), if bounded { 30.0 } else { 0.0 }.into());
        }
        if kind == ModelKind::Gemma3Text {
            config.insert("sliding_window_pattern".to_owned(), period.into());
        } else {
            let word = |slides| if slides { "sliding_attention" } else { "full_attention" };
            let types: Vec<&str> = slides.iter().map(|&slides| word(slides)).collect();
            config.insert("num_hidden_layers".to_owned(), types.len().into());
            config.insert("layer_types".to_owned(), types.into());
        }
        config
    })
}

/// A Llama-like model with fused projections and positions in part of a head.
fn phi3() -> impl Strategy<Value = Map<String, Value>> {
    let shape =
        (one_of(&[1.0, 0.5, 0.4]), one_of(&[0.0, 0.1]), any::<bool>(), one_of(&[16_u64, 4_096]));
    (llama_like(), shape).prop_map(|(mut config, (factor, dropout, long, original))| {
        for field in ["use_sliding_window", "max_window_layers"] {
            config.remove(field);
        }
        config.insert("resid_pdrop".to_owned(), dropout.into());
        let kind = if long { "longrope" } else { "default" };
        config.insert(
            "rope_scaling".to_owned(),
            json!({"rope_type": kind, "partial_rotary_factor": factor}),
        );
        config.insert("original_max_position_embeddings".to_owned(), original.into());
        config
    })
}

prop_compose! {
    fn latent()(
        base in llama_like(),
        [plain_dim, rotary_dim, value_dim] in [1..=9_u64, 1..=4_u64, 1..=9_u64],
        [kv_rank, query_rank] in [1..=40_u64, 0..=40_u64],
        [groups, top_groups] in [1..=3_u64, 1..=1_u64],
        [dense, top_k, shared] in [0..=4_u64, 1..=2_u64, 1..=2_u64],
        [interleaved, normalized]: [bool; 2],
    ) -> Map<String, Value> {
        let config = json!({
            "hidden_size": base["hidden_size"], "intermediate_size": base["intermediate_size"],
            "num_hidden_layers": base["num_hidden_layers"], "vocab_size": base["vocab_size"],
            "num_attention_heads": base["num_attention_heads"],
            "num_key_value_heads": base["num_attention_heads"],
            "qk_nope_head_dim": 8 * plain_dim, "qk_rope_head_dim": 2 * rotary_dim,
            "v_head_dim": 4 * value_dim, "kv_lora_rank": kv_rank, "q_lora_rank": query_rank,
            "rope_interleave": interleaved, "first_k_dense_replace": dense,
            "n_routed_experts": 4 * groups, "n_group": groups, "topk_group": top_groups,
            "num_experts_per_tok": top_k, "n_shared_experts": shared,
            "moe_intermediate_size": 24, "norm_topk_prob": normalized,
        });
        config.as_object().cloned().unwrap_or_default()
    }
}

prop_compose! {
    fn encoder()(
        heads in 1..=8_u64,
        head_dim in one_of(&[8_u64, 31, 64]),
        layers in 1..=4_u64,
        vocab in 100..=2_000_u64,
        tied: bool,
        dropout in one_of(&[0.0, 0.1]),
    ) -> Map<String, Value> {
        let config = json!({
            "hidden_size": heads * head_dim, "num_attention_heads": heads,
            "num_hidden_layers": layers, "intermediate_size": 4 * heads * head_dim,
            "vocab_size": vocab, "tie_word_embeddings": tied, "hidden_dropout_prob": dropout,
            "attention_probs_dropout_prob": dropout, "max_position_embeddings": 4_096,
        });
        config.as_object().cloned().unwrap_or_default()
    }
}

prop_compose! {
    fn opt()(
        heads in 1..=8_u64,
        head_dim in one_of(&[8_u64, 31, 64]),
        layers in 1..=4_u64,
        vocab in 100..=2_000_u64,
        tied: bool,
        before: bool,
        narrow in one_of(&[None, Some(24_u64)]),
    ) -> Map<String, Value> {
        let hidden = heads * head_dim;
        let config = json!({
            "hidden_size": hidden, "num_attention_heads": heads, "num_hidden_layers": layers,
            "ffn_dim": 4 * hidden, "vocab_size": vocab, "tie_word_embeddings": tied,
            "do_layer_norm_before": before, "word_embed_proj_dim": narrow.unwrap_or(hidden),
            "max_position_embeddings": 4_096,
        });
        config.as_object().cloned().unwrap_or_default()
    }
}

prop_compose! {
    fn vit()(
        heads in 1..=8_u64,
        head_dim in one_of(&[8_u64, 31, 64]),
        layers in 1..=4_u64,
        side in 1..=4_u64,
        labels in 2..=100_u64,
        dropout in one_of(&[0.0, 0.1]),
    ) -> Map<String, Value> {
        let config = json!({
            "hidden_size": heads * head_dim, "num_attention_heads": heads,
            "num_hidden_layers": layers, "intermediate_size": 4 * heads * head_dim,
            "image_size": 16 * side, "patch_size": 16, "num_labels": labels,
            "hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout,
        });
        config.as_object().cloned().unwrap_or_default()
    }
}

prop_compose! {
    fn parallel(kind: ModelKind)(
        (heads, head_dim, layers) in (1..=6_u64, one_of(&[8, 16, 32]), 1..=4_u64),
        (intermediate, vocab) in (one_of(&[80, 200]), 10..=600_u64),
        (parallel, attention_bias, tied) in (any::<bool>(), any::<bool>(), any::<bool>()),
        dropout in one_of(&[0.0, 0.1]),
    ) -> Map<String, Value> {
        let mut config = json!({
            "hidden_size": heads * head_dim, "num_attention_heads": heads,
            "num_hidden_layers": layers, "intermediate_size": intermediate, "vocab_size": vocab,
            "attention_dropout": dropout, "tie_word_embeddings": tied,
        });
        if kind == ModelKind::Phi {
            config["resid_pdrop"] = dropout.into();
        } else {
            config["hidden_dropout"] = dropout.into();
            config["use_parallel_residual"] = parallel.into();
            config["attention_bias"] = attention_bias.into();
        }
        config.as_object().cloned().unwrap_or_default()
    }
}

prop_compose! {
    fn falcon()(
        (heads, head_dim, layers) in (2..=6_u64, one_of(&[4, 16, 30]), 1..=4_u64),
        (vocab, bias) in (10..=600_u64, any::<bool>()),
        dropout in one_of(&[0.0, 0.1]),
    ) -> Map<String, Value> {
        let config = json!({
            "hidden_size": heads * head_dim, "num_attention_heads": heads,
            "num_hidden_layers": layers, "vocab_size": vocab, "bias": bias,
            "hidden_dropout": dropout,
        });
        config.as_object().cloned().unwrap_or_default()
    }
}

prop_compose! {
    fn t5()(
        (heads, head_dim) in (2..=6_u64, one_of(&[4, 16, 32])),
        (hidden, intermediate) in (one_of(&[48, 64]), one_of(&[80, 200])),
        (encoder, decoder) in (1..=4_u64, 1..=4_u64),
        vocab in 10..=600_u64,
        feed_forward in one_of(&["relu", "gated-gelu", "gated-silu"]),
        scales: bool,
        dropout in one_of(&[0.0, 0.1]),
    ) -> Map<String, Value> {
        let config = json!({
            "d_model": hidden, "d_ff": intermediate, "d_kv": head_dim, "num_heads": heads,
            "num_layers": encoder, "num_decoder_layers": decoder, "vocab_size": vocab,
            "feed_forward_proj": feed_forward, "tie_word_embeddings": scales,
            "dropout_rate": dropout,
        });
        config.as_object().cloned().unwrap_or_default()
    }
}

fn model() -> impl Strategy<Value = Model> {
    choice::<ModelKind>().prop_flat_map(|kind| {
        let config = match kind {
            ModelKind::Gpt2 => gpt2().boxed(),
            ModelKind::Bert | ModelKind::Roberta => encoder().boxed(),
            ModelKind::Opt => opt().boxed(),
            ModelKind::Falcon => falcon().boxed(),
            ModelKind::GptNeox | ModelKind::Phi => parallel(kind).boxed(),
            ModelKind::T5 => t5().boxed(),
            ModelKind::Vit => vit().boxed(),
            ModelKind::Qwen2 | ModelKind::Qwen3 => llama_like().boxed(),
            ModelKind::Mixtral | ModelKind::Qwen2Moe | ModelKind::Qwen3Moe => mixture(kind).boxed(),
            ModelKind::DeepseekV3 => latent().boxed(),
            ModelKind::Gemma2 | ModelKind::Gemma3Text => gemma(kind).boxed(),
            ModelKind::Phi3 => phi3().boxed(),
            ModelKind::Llama | ModelKind::Mistral => {
                let without = |mut config: Map<String, Value>| {
                    for field in ["use_sliding_window", "sliding_window", "max_window_layers"] {
                        config.remove(field);
                    }
                    config
                };
                llama_like().prop_map(without).boxed()
            }
        };
        config.prop_map(move |config| Model::Inline { kind, config })
    })
}

prop_compose! {
    fn hardware()(
        gpu in prop::sample::select(
            CATALOG.gpus.iter().map(|gpu| gpu.id.clone()).collect::<Vec<_>>(),
        ),
        already_used_bytes in one_of(&[0, 1 << 30]),
        process_cap_bytes in prop::option::of(MIB..=2_000 * MIB),
    ) -> Hardware {
        Hardware { gpu, count: 1, already_used_bytes, process_cap_bytes }
    }
}

prop_compose! {
    fn optimizer()(
        name in choice::<OptimizerName>(),
        implementation in choice(),
        momentum in prop::option::of(one_of(&[0.0, 0.9])),
        clip_grad_norm: bool,
        set_to_none: bool,
    ) -> Optimizer {
        let momentum = momentum.filter(|_| name.has_momentum());
        let centered = name == OptimizerName::Rmsprop && !set_to_none;
        let all = name.implementations();
        let implementation = if all.contains(&implementation) { implementation } else { all[0] };
        Optimizer { name, implementation, momentum, centered, clip_grad_norm, set_to_none }
    }
}

prop_compose! {
    fn stack()(
        attention in choice(),
        loss in choice(),
        tf32: bool,
        alloc_conf in one_of(&[
            "", "expandable_segments:True", "max_split_size_mb:32", "roundup_power2_divisions:4",
        ]),
    ) -> Stack {
        Stack {
            attention,
            loss,
            tf32,
            alloc_conf: alloc_conf.to_owned(),
            ..Stack::default()
        }
    }
}

/// Modules of llama's kind without experts: `down_proj` leaves what comes before it in the first layer without gradients.
const TARGETS: [&[&str]; 3] = [&["q_proj", "v_proj"], &["down_proj"], &["k_proj", "gate_proj"]];

prop_compose! {
    /// For llama's kind.
    fn adapter()(
        rank in 1..=16_u64,
        targets in one_of(&TARGETS),
        dropout in one_of(&[0.0, 0.1]),
    ) -> Adapter {
        let targets = targets.iter().map(|&target| target.to_owned()).collect();
        Adapter { kind: AdapterKind::Lora, rank, targets, dropout }
    }
}

/// The adapter with targets that the model has, if it has any.
fn fitting(adapter: Adapter, model: &Model) -> Option<Adapter> {
    let Model::Inline { kind, .. } = model else { return None };
    let targets = match kind {
        ModelKind::Gpt2 => vec!["c_proj".to_owned()],
        ModelKind::Gemma2
        | ModelKind::Gemma3Text
        | ModelKind::Llama
        | ModelKind::Mistral
        | ModelKind::Qwen2
        | ModelKind::Qwen3 => adapter.targets,
        ModelKind::Phi3 => vec!["qkv_proj".to_owned(), "down_proj".to_owned()],
        ModelKind::Mixtral | ModelKind::Qwen2Moe | ModelKind::Qwen3Moe => vec!["v_proj".to_owned()],
        _ => return None,
    };
    Some(Adapter { targets, ..adapter })
}

fn has_decoder(model: &Model) -> bool {
    matches!(model, Model::Inline { kind: ModelKind::T5, .. })
}

prop_compose! {
    /// Replicas, mostly one, and what they share.
    fn layout()(
        count in one_of(&[1_u64, 1, 2, 3, 8]),
        data in one_of(&[DataParallel::Ddp, DataParallel::Fsdp2]),
        bucket_view: bool,
        [reshard_after_forward, mixed_precision, cpu_offload]: [bool; 3],
        reduce_dtype in prop::option::of(Just(ReduceDtype::Fp32)),
    ) -> (u64, Parallel) {
        let ddp = Ddp { bucket_view, ..Ddp::default() };
        let fsdp = Fsdp {
            reshard_after_forward, mixed_precision, reduce_dtype, cpu_offload, meta_init: true,
        };
        let data = (1 < count).then_some(data);
        (count, Parallel { data, ddp, fsdp, ..Parallel::default() })
    }
}

/// The scenario without what is not simulated together.
fn simulated(mut scenario: Scenario) -> Scenario {
    if scenario.parallel.data == Some(DataParallel::Fsdp2) {
        scenario.adapter = None;
        if scenario.parallel.fsdp.cpu_offload && scenario.precision == Precision::AmpFp16 {
            scenario.precision = Precision::AmpBf16;
        }
    }
    scenario
}

fn reads_images(model: &Model) -> bool {
    matches!(model, Model::Inline { kind: ModelKind::Vit, .. })
}

prop_compose! {
    fn scenario()(
        model in model(),
        hardware in hardware(),
        (micro_batch, seq_len, target_len, grad_accum) in
            (1..=4_u64, 8..=256_u64, 0..=64_u64, 1..=3_u64),
        precision in choice(),
        optimizer in optimizer(),
        (checkpointing, adapter) in (choice(), prop::option::of(adapter())),
        (stack, (count, parallel)) in (stack(), layout()),
    ) -> Scenario {
        let seq_len = if reads_images(&model) { 0 } else { seq_len };
        let target_len = if has_decoder(&model) { target_len } else { 0 };
        let adapter = adapter.and_then(|adapter| fitting(adapter, &model));
        let workload = Workload { micro_batch, seq_len, target_len, grad_accum };
        let (version, name) = (SCENARIO_VERSION, None);
        let hardware = Hardware { count, ..hardware };
        simulated(Scenario {
            version, name, model, hardware, parallel, workload, precision, optimizer, checkpointing, adapter,
            stack,
        })
    }
}

fn valid(scenario: &Scenario) -> ValidScenario {
    validate(scenario, &CATALOG).unwrap_or_else(|faults| panic!("{faults}"))
}

fn run(scenario: &Scenario) -> Simulation {
    simulate(&valid(scenario))
}

/// Bytes by category after each event, from the tensors' columns.
fn categories(timeline: &Timeline) -> Vec<[i64; Category::ALL.len()]> {
    let tensors = &timeline.tensors;
    let mut changes = vec![[0_i64; Category::ALL.len()]; timeline.events.len() + 1];
    for tensor in 0..tensors.len() {
        let category = usize::from(tensors.category[tensor]);
        let bytes = tensors.bytes[tensor].cast_signed();
        let (born, freed) = (tensors.born[tensor], tensors.freed[tensor]);
        let birth = if born == BEFORE { 0 } else { born as usize + 1 };
        changes[birth][category] += bytes;
        if freed != NEVER {
            changes[freed as usize + 1][category] -= bytes;
        }
    }
    for event in 1..changes.len() {
        for category in Category::ALL {
            changes[event][category as usize] += changes[event - 1][category as usize];
        }
    }
    changes
}

/// Live requested bytes before the first and after each event, from the events.
fn live(timeline: &Timeline) -> Vec<u64> {
    let events = &timeline.events;
    let mut live = vec![timeline.base_bytes];
    for event in 0..events.len() {
        let bytes = timeline.tensors.bytes[events.tensor[event] as usize];
        let before = live[event];
        live.push(if events.is_alloc[event] == 1 { before + bytes } else { before - bytes });
    }
    live
}

fn check_columns(timeline: &Timeline, live: &[u64]) -> TestCaseResult {
    let events = &timeline.events;
    let n = events.len();
    for length in [events.tensor.len(), events.is_alloc.len(), events.reserved.len()] {
        prop_assert_eq!(length, n);
    }
    prop_assert!(events.time_ns.is_sorted());
    prop_assert!(events.time_ns.last().is_none_or(|&last| last <= timeline.step_ns));
    let by_category = categories(timeline);
    for (sums, &live) in by_category.iter().zip(live) {
        prop_assert!(sums.iter().all(|&bytes| 0 <= bytes), "{:?}", sums);
        prop_assert_eq!(sums.iter().sum::<i64>(), live.cast_signed());
        prop_assert_eq!(sums[Category::OutsidePool as usize], 0);
        prop_assert_eq!(sums[Category::Slack as usize], 0);
    }
    prop_assert!(timeline.base_bytes <= timeline.base_allocated);
    prop_assert!(timeline.base_allocated <= timeline.base_reserved);
    for (event, &live) in live[1..].iter().enumerate() {
        prop_assert!(live <= events.allocated[event]);
        prop_assert!(events.allocated[event] <= events.reserved[event]);
    }
    Ok(())
}

fn check_phases(timeline: &Timeline, report: &StepReport, live: &[u64]) -> TestCaseResult {
    let phases = &timeline.phases;
    prop_assert_eq!(phases.first().map(|phase| phase.first_event), Some(0));
    prop_assert_eq!(phases.last().map(|p| p.end_event as usize), Some(timeline.events.len()));
    prop_assert!(phases.windows(2).all(|pair| pair[0].end_event == pair[1].first_event));
    prop_assert_eq!(phases.len(), report.phases.len());
    for (phase, row) in phases.iter().zip(&report.phases) {
        prop_assert!(phase.start_ns <= phase.end_ns);
        let inside = &live[phase.first_event as usize..=phase.end_event as usize];
        prop_assert_eq!(row.peak_bytes.get(), inside.iter().copied().max().unwrap_or(0));
        prop_assert_eq!(row.start_bytes.get(), inside[0]);
        prop_assert_eq!(row.end_bytes.get(), inside[inside.len() - 1]);
    }
    Ok(())
}

fn check_report(
    timeline: &Timeline,
    report: &StepReport,
    live: &[u64],
    outside: Bytes,
) -> TestCaseResult {
    let events = &timeline.events;
    let highest = |column: &[u64], base: u64| column.iter().copied().fold(base, u64::max);
    prop_assert_eq!(report.base_bytes.get(), timeline.base_bytes);
    prop_assert_eq!(report.peak_requested_bytes.get(), highest(live, 0));
    let allocated = highest(&events.allocated, timeline.base_allocated);
    prop_assert_eq!(report.peak_allocated_bytes.get(), allocated);
    let reserved = highest(&events.reserved, timeline.base_reserved);
    prop_assert_eq!(report.peak_reserved_bytes.get(), reserved);
    let at = report.peak_event as usize;
    prop_assert_eq!(live[at + 1], report.peak_requested_bytes.get());
    let shown: u64 = report.categories.iter().map(|row| row.bytes.get()).sum();
    prop_assert_eq!(shown, events.reserved[at] + outside.get());
    let of_tensors = &categories(timeline)[at + 1];
    for row in &report.categories {
        let expected = match row.category {
            Category::OutsidePool => outside.get(),
            Category::Slack => events.reserved[at] - live[at + 1],
            category => of_tensors[category as usize].unsigned_abs(),
        };
        prop_assert_eq!(row.bytes.get(), expected, "{:?}", row.category);
    }
    let rows: u64 = report.breakdown.iter().map(|row| row.bytes.get()).sum();
    prop_assert_eq!(rows, live[at + 1]);
    Ok(())
}

/// A steady step frees what it makes, and leaves as much as it found.
fn check_steady(timeline: &Timeline, live: &[u64]) -> TestCaseResult {
    let tensors = &timeline.tensors;
    for tensor in 0..tensors.len() {
        let stays = tensors.freed[tensor] == NEVER;
        prop_assert_eq!(tensors.born[tensor] == BEFORE, stays, "tensor {}", tensor);
        prop_assert!(stays || tensors.born[tensor] < tensors.freed[tensor]);
    }
    prop_assert_eq!(live.last(), live.first());
    Ok(())
}

/// What the first forward pass, loss included, leaves for backward. Workspaces of libraries are part
/// of the base: a thread that recomputes has more of them.
fn kept_by_forward(step: &StepReport) -> u64 {
    let is_forward = |p: &&PhaseReport| matches!(p.kind, PhaseKind::Forward | PhaseKind::Loss);
    let forward = step.phases.iter().take_while(is_forward);
    let end = forward.last().expect("a step begins with a forward pass").end_bytes;
    end.get() - step.base_bytes.get()
}

fn peaks(scenario: &Scenario) -> [Bytes; 2] {
    let report = run(scenario).report;
    [report.first, report.steady].map(|step| step.peak_requested_bytes)
}

fn window(scenario: &Scenario) -> Option<u64> {
    let Model::Inline { config, .. } = &scenario.model else { return None };
    let is_used = config.get("use_sliding_window")? == true;
    config.get("sliding_window")?.as_u64().filter(|_| is_used)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn columns_and_report_agree_with_themselves(scenario in scenario()) {
        let valid = valid(&scenario);
        let outside = valid.outside_pool().total();
        let simulation = simulate(&valid);
        let report = &simulation.report;
        let steps = [(&simulation.first, &report.first), (&simulation.steady, &report.steady)];
        for (timeline, report) in steps {
            let live = live(timeline);
            check_columns(timeline, &live)?;
            check_phases(timeline, report, &live)?;
            check_report(timeline, report, &live, outside)?;
        }
        check_steady(&simulation.steady, &live(&simulation.steady))?;
    }

    #[test]
    fn a_larger_batch_never_lowers_the_peak(scenario in scenario(), more in 1..=4_u64) {
        let mut larger = scenario.clone();
        larger.workload.micro_batch += more;
        for (peak, larger) in peaks(&scenario).into_iter().zip(peaks(&larger)) {
            prop_assert!(peak <= larger, "{:?} → {:?}", peak, larger);
        }
    }

    #[test]
    fn a_longer_sequence_never_lowers_the_peak(scenario in scenario(), more in 1..=64_u64) {
        prop_assume!(!reads_images(&scenario.model));
        let mut longer = scenario.clone();
        longer.workload.seq_len += more;
        // Beyond its window a layer has a mask, and with a mask SDPA may choose a leaner kernel.
        prop_assume!(window(&scenario).is_none_or(|window| longer.workload.seq_len <= window));
        for (peak, longer) in peaks(&scenario).into_iter().zip(peaks(&longer)) {
            prop_assert!(peak <= longer, "{:?} → {:?}", peak, longer);
        }
    }

    /// Out of memory is an answer, however far out.
    #[test]
    fn every_size_is_answered(
        scenario in scenario(),
        micro_batch in one_of(&[1, 1024, *limits::MICRO_BATCH.end()]),
        seq_len in one_of(&[1, 131_072, *limits::SEQ_LEN.end()]),
        id in prop::sample::select(
            CATALOG.models.iter().map(|model| model.id.clone()).collect::<Vec<_>>(),
        ),
    ) {
        let workload = Workload { micro_batch, seq_len, target_len: 0, grad_accum: 1 };
        let scenario = Scenario { workload, model: Model::Catalog { id }, ..scenario };
        // What cannot be counted is refused with a fault.
        if let Ok(valid) = validate(&scenario, &CATALOG) {
            let report = simulate(&valid).report;
            let capacity = Bytes::new(valid.gpu().usable_mib * MIB);
            let fits = report.steady.peak_requested_bytes <= capacity;
            prop_assert!(fits || report.verdict.outcome != Outcome::Fits);
        }
    }

    #[test]
    fn checkpointing_never_keeps_more(scenario in scenario()) {
        // Beside a frozen model a layer before the first adapter keeps nothing, but its checkpoint
        // keeps its input.
        let scenario = Scenario { adapter: None, ..scenario };
        let with = |checkpointing| run(&Scenario { checkpointing, ..scenario.clone() }).report;
        let (none, full) = (with(Checkpointing::None), with(Checkpointing::Full));
        prop_assert!(kept_by_forward(&full.first) <= kept_by_forward(&none.first));
        prop_assert!(kept_by_forward(&full.steady) <= kept_by_forward(&none.steady));
    }
}
