//! Random small scenarios that are valid.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use simulator::scenario::Word;
use simulator::wire::Scenario;
use simulator::wire::model::ModelKind;
use simulator::wire::parallel::{DataParallel, Ddp, Fsdp, Parallel, ReduceDtype, Zero};
use simulator::wire::scenario::{
    Adapter, AdapterKind, Attention, BaseFormat, Checkpointing, Framework, Hardware, Model,
    Optimizer, OptimizerName, Precision, SCENARIO_VERSION, Stack, Workload,
};

use super::{CATALOG, MIB};

fn choice<T: Word + core::fmt::Debug + 'static>() -> impl Strategy<Value = T> {
    prop::sample::select(T::WORDS.iter().map(|(_, choice)| *choice).collect::<Vec<T>>())
}

pub(super) fn one_of<T: Clone + core::fmt::Debug + 'static>(
    values: &[T],
) -> impl Strategy<Value = T> {
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

prop_compose! {
    /// One of each family.
    fn torchvision()(
        name in one_of(&[
            "resnet18", "resnext50_32x4d", "vgg11_bn", "mobilenet_v2", "mobilenet_v3_small",
            "efficientnet_b0", "convnext_tiny", "densenet121", "regnet_y_400mf", "regnet_x_400mf",
        ]),
        side in one_of(&[32_u64, 64, 75]),
        classes in 1..=100_u64,
    ) -> Map<String, Value> {
        let config = json!({"name": name, "image_size": side, "num_classes": classes});
        config.as_object().cloned().unwrap_or_default()
    }
}

prop_compose! {
    fn megatron_gpt()(
        (layers, groups, repeat, dim) in (1..=4_u64, 1..=3_u64, 1..=3_u64, 1..=4_u64),
        vocab in 16..=600_u64,
        position in one_of(&["learned_absolute", "rope", "none"]),
        normalization in one_of(&["LayerNorm", "RMSNorm"]),
        [gated, bias, tied, fused] in any::<[bool; 4]>(),
        dropout in one_of(&[0.0, 0.1]),
        (experts, load) in (one_of(&[0_u64, 0, 2, 5]), one_of(&["balanced", "first"])),
        engine in prop::option::of(any::<[bool; 5]>()),
    ) -> Map<String, Value> {
        let mixture = 0 < experts;
        let gated = gated || mixture;
        let engine = engine.filter(|_| !mixture);
        let mut config = json!({
            "num_layers": layers, "hidden_size": 8 * groups * repeat * dim,
            "num_attention_heads": groups * repeat, "num_query_groups": groups,
            "vocab_size": vocab, "max_sequence_length": 1024,
            "position_embedding_type": position, "normalization": normalization,
            "gated_linear_unit": gated, "activation_func": if gated { "silu" } else { "gelu" },
            "add_bias_linear": bias && !mixture,
            "share_embeddings_and_output_weights": tied,
            "bias_activation_fusion": fused && (gated || bias), "bias_dropout_fusion": fused,
            "hidden_dropout": dropout, "attention_dropout": dropout,
            "num_moe_experts": experts, "expert_load": load,
        });
        if let Some([unfused, rope, loss, gradients, mask]) = engine {
            config["transformer_impl"] = json!("transformer_engine");
            config["attention_backend"] = json!(if unfused { "unfused" } else { "fused" });
            config["apply_rope_fusion"] = json!(rope);
            config["cross_entropy_loss_fusion"] = json!(loss);
            config["cross_entropy_fusion_impl"] = json!("te");
            config["gradient_accumulation_fusion"] = json!(gradients);
            config["create_attention_mask_in_dataloader"] = json!(mask);
        } else {
            config["masked_softmax_fusion"] = json!(fused);
        }
        config.as_object().cloned().unwrap_or_default()
    }
}

fn model() -> impl Strategy<Value = Model> {
    choice::<ModelKind>().prop_flat_map(|kind| {
        let config = match kind {
            ModelKind::Gpt2 => gpt2().boxed(),
            ModelKind::Bert | ModelKind::Roberta => encoder().boxed(),
            ModelKind::MegatronGpt => megatron_gpt().boxed(),
            ModelKind::Opt => opt().boxed(),
            ModelKind::Falcon => falcon().boxed(),
            ModelKind::GptNeox | ModelKind::Phi => parallel(kind).boxed(),
            ModelKind::T5 => t5().boxed(),
            ModelKind::Vit => vit().boxed(),
            ModelKind::Torchvision => torchvision().boxed(),
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
        let in_backward = false;
        Optimizer { name, implementation, momentum, centered, clip_grad_norm, set_to_none, in_backward }
    }
}

prop_compose! {
    fn stack()(
        attention in one_of(&[Attention::Sdpa, Attention::Eager]),
        loss in choice(),
        tf32: bool,
        alloc_conf in one_of(&[
            "", "expandable_segments:True", "max_split_size_mb:32", "roundup_power2_divisions:4",
        ]),
    ) -> Stack {
        let alloc_conf = alloc_conf.to_owned();
        Stack { attention, loss, tf32, alloc_conf, ..Stack::default() }
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
        Adapter { kind: AdapterKind::Lora, rank, targets, dropout, autocast: true, base: BaseFormat::Whole, base_head: false, stable_embedding: false }
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
        data in one_of(&[
            DataParallel::Ddp, DataParallel::Fsdp2,
            DataParallel::Zero1, DataParallel::Zero2, DataParallel::Zero3,
        ]),
        bucket in one_of(&[300_u64, 5_000, 1 << 29]),
        bucket_view: bool,
        [reshard_after_forward, mixed_precision, cpu_offload]: [bool; 3],
        reduce_dtype in prop::option::of(Just(ReduceDtype::Fp32)),
    ) -> (u64, Parallel) {
        let ddp = Ddp { bucket_view, ..Ddp::default() };
        let fsdp = Fsdp {
            reshard_after_forward, mixed_precision, reduce_dtype, cpu_offload, meta_init: true, ..Fsdp::default() };
        let data = (1 < count).then_some(data);
        let zero = Zero {
            reduce_bucket_size: bucket,
            prefetch_bucket_size: bucket / 2,
            max_reuse_distance: bucket,
            overlap_comm: Some(bucket_view),
            contiguous_gradients: reshard_after_forward,
            round_robin_gradients: mixed_precision,
            offload_optimizer: cpu_offload,
            grad_accum_dtype: reduce_dtype,
            ..Zero::default()
        };
        (count, Parallel { data, ddp, fsdp, zero, ..Parallel::default() })
    }
}

/// The scenario without what is not simulated together.
fn simulated(mut scenario: Scenario) -> Scenario {
    if matches!(scenario.model, Model::Inline { kind: ModelKind::Torchvision, .. }) {
        scenario.parallel.data = scenario.parallel.data.map(|_| DataParallel::Ddp);
    }
    let stage = scenario.parallel.data.and_then(DataParallel::zero_stage);
    if stage.is_none() && scenario.precision == Precision::Fp16 {
        scenario.precision = Precision::Bf16;
    }
    if scenario.parallel.data == Some(DataParallel::Fsdp2) {
        scenario.adapter = None;
        if !matches!(
            scenario.optimizer.name,
            OptimizerName::Adamw
                | OptimizerName::Sgd
                | OptimizerName::Rmsprop
                | OptimizerName::Lion
        ) {
            scenario.optimizer = Optimizer {
                name: OptimizerName::Adamw,
                momentum: None,
                centered: false,
                ..scenario.optimizer
            };
        }
        if scenario.parallel.fsdp.cpu_offload && scenario.precision == Precision::AmpFp16 {
            scenario.precision = Precision::AmpBf16;
        }
    }
    if stage.is_some() {
        scenario.adapter = None;
        scenario.precision = match scenario.precision {
            Precision::AmpBf16 => Precision::Bf16,
            Precision::AmpFp16 => Precision::Fp16,
            other => other,
        };
        scenario.optimizer = Optimizer {
            name: OptimizerName::Adamw,
            momentum: None,
            centered: false,
            ..scenario.optimizer
        };
    }
    scenario
}

pub(super) fn reads_images(model: &Model) -> bool {
    matches!(model, Model::Inline { kind: ModelKind::Vit | ModelKind::Torchvision, .. })
}

prop_compose! {
    pub(super) fn scenario()(
        model in model(),
        hardware in hardware(),
        (micro_batch, seq_len, target_len, grad_accum) in
            (1..=4_u64, 8..=256_u64, 0..=64_u64, 1..=3_u64),
        precision in choice(),
        optimizer in optimizer(),
        (checkpointing, adapter) in (choice(), prop::option::of(adapter())),
        (stack, channels_last, (count, parallel)) in (stack(), any::<bool>(), layout()),
    ) -> Scenario {
        let vision = matches!(model, Model::Inline { kind: ModelKind::Torchvision, .. });
        let stack = Stack { channels_last: vision && channels_last, ..stack };
        let checkpointing = if vision { Checkpointing::None } else { checkpointing };
        let seq_len = if reads_images(&model) { 0 } else { seq_len };
        let target_len = if has_decoder(&model) { target_len } else { 0 };
        let adapter = adapter.and_then(|adapter| fitting(adapter, &model));
        let workload = Workload { micro_batch, seq_len, target_len, grad_accum };
        let (version, name) = (SCENARIO_VERSION, None);
        let hardware = Hardware { count, ..hardware };
        of_its_stack(simulated(Scenario {
            version, name, model, hardware, parallel, workload, precision, optimizer, checkpointing, adapter,
            stack,
        }))
    }
}

/// The scenario with choices that the model's framework has.
fn of_its_stack(mut scenario: Scenario) -> Scenario {
    if let Model::Inline { kind: ModelKind::MegatronGpt, config } = &scenario.model {
        let local = !config.contains_key("transformer_impl") && config["num_moe_experts"] == 0;
        scenario.stack.framework = Framework::MegatronCore;
        scenario.precision = Precision::Bf16;
        let clip_grad_norm = scenario.optimizer.clip_grad_norm;
        scenario.optimizer = Optimizer { clip_grad_norm, ..Optimizer::default() };
        let data = scenario.parallel.data.map(|data| match data {
            DataParallel::Ddp => DataParallel::Ddp,
            DataParallel::Zero1 if local => DataParallel::Zero1,
            _ => DataParallel::DistributedOptimizer,
        });
        let Zero { reduce_bucket_size, contiguous_gradients, grad_accum_dtype, .. } =
            scenario.parallel.zero;
        let zero =
            Zero { reduce_bucket_size, contiguous_gradients, grad_accum_dtype, ..Zero::default() };
        scenario.parallel = Parallel { data, zero, ..Parallel::default() };
    } else if scenario.checkpointing == Checkpointing::Selective {
        scenario.checkpointing = Checkpointing::Full;
    }
    scenario
}
