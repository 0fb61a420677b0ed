//! The shape of an inline model: the keys of its `config.json` that decide memory.

use leptos::prelude::*;
use serde_json::Value;
use simulator::wire::ModelKind;
use simulator::wire::scenario::Model;

use super::shell::FaultList;
use crate::edit;
use crate::engine::Rules;
use crate::erased::{derived, flag, invalid, memo, part, text, when};
use crate::field::config_id;
use crate::format;
use crate::state::{Choice, Settings};

const LLAMA: [&str; 8] = [
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "tie_word_embeddings",
];

const MIXTRAL: [&str; 10] = [
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "num_local_experts",
    "num_experts_per_tok",
    "tie_word_embeddings",
];

const QWEN_MOE: [&str; 10] = [
    "hidden_size",
    "moe_intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "num_experts",
    "num_experts_per_tok",
    "tie_word_embeddings",
];

const DEEPSEEK: [&str; 13] = [
    "hidden_size",
    "intermediate_size",
    "moe_intermediate_size",
    "num_hidden_layers",
    "first_k_dense_replace",
    "num_attention_heads",
    "q_lora_rank",
    "kv_lora_rank",
    "vocab_size",
    "n_routed_experts",
    "n_shared_experts",
    "num_experts_per_tok",
    "tie_word_embeddings",
];

const GPT2: [&str; 6] = ["n_embd", "n_inner", "n_layer", "n_head", "vocab_size", "n_positions"];

const ENCODER: [&str; 6] = [
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
    "max_position_embeddings",
];

const OPT: [&str; 7] = [
    "hidden_size",
    "word_embed_proj_dim",
    "ffn_dim",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
    "max_position_embeddings",
];

const FALCON: [&str; 6] = [
    "hidden_size",
    "ffn_hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
    "tie_word_embeddings",
];

const T5: [&str; 7] =
    ["d_model", "d_ff", "d_kv", "num_layers", "num_decoder_layers", "num_heads", "vocab_size"];

const VIT: [&str; 7] = [
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "image_size",
    "patch_size",
    "num_labels",
];

const TORCHVISION: [&str; 2] = ["image_size", "num_classes"];

const MEGATRON: [&str; 12] = [
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_attention_heads",
    "num_query_groups",
    "vocab_size",
    "max_sequence_length",
    "gated_linear_unit",
    "add_bias_linear",
    "num_moe_experts",
    "moe_router_topk",
    "share_embeddings_and_output_weights",
];

/// The keys shown for a class.
pub(super) const fn keys(kind: ModelKind) -> &'static [&'static str] {
    match kind {
        ModelKind::Gpt2 => &GPT2,
        ModelKind::Mixtral => &MIXTRAL,
        ModelKind::Qwen2Moe | ModelKind::Qwen3Moe => &QWEN_MOE,
        ModelKind::DeepseekV3 => &DEEPSEEK,
        ModelKind::MegatronGpt => &MEGATRON,
        ModelKind::Opt => &OPT,
        ModelKind::Falcon => &FALCON,
        ModelKind::Bert | ModelKind::Roberta | ModelKind::GptNeox | ModelKind::Phi => &ENCODER,
        ModelKind::T5 => &T5,
        ModelKind::Vit => &VIT,
        ModelKind::Torchvision => &TORCHVISION,
        _ => &LLAMA,
    }
}

/// The class and its keys.
#[component]
pub(super) fn ModelShape() -> impl IntoView {
    let choice = expect_context::<Choice>();
    let kind = memo(move || {
        choice.scenario.with(|scenario| match &scenario.model {
            Model::Inline { kind, .. } => Some(*kind),
            Model::Catalog { .. } => None,
        })
    });
    part(move || {
        let Some(kind) = kind.get() else { return ().into_any() };
        let field = |key: &&'static str| match *key {
            "tie_word_embeddings" => view! { <ShapeFlag key=*key /> }.into_any(),
            key => view! { <ShapeNumber key /> }.into_any(),
        };
        let fields: Vec<AnyView> = keys(kind).iter().map(field).collect();
        view! {
            <p class="facts"><code>{kind.word()}</code></p>
            <div class="shape">{fields}</div>
        }
        .into_any()
    })
}

fn name(settings: Settings, key: &'static str) -> Signal<&'static str> {
    derived(move || (settings.words().config_key)(key).unwrap_or(key))
}

/// What stands at a key now.
fn value(choice: Choice, key: &'static str) -> Memo<Option<Value>> {
    memo(move || {
        choice.scenario.with(|scenario| edit::config(scenario).and_then(|c| c.get(key).cloned()))
    })
}

#[component]
fn ShapeNumber(key: &'static str) -> impl IntoView {
    let choice = expect_context::<Choice>();
    let settings = expect_context::<Settings>();
    let value = value(choice, key);
    let draft = RwSignal::new(None::<String>);
    let faults = at(key);
    let shown = text(move || match (draft.get(), value.get()) {
        (Some(text), _) => text,
        (None, Some(Value::Number(number))) => number.to_string(),
        (None, Some(Value::Null) | None) => String::new(),
        (None, Some(other)) => other.to_string(),
    });
    let is_wrong = flag(move || {
        draft.with(|draft| {
            draft.as_ref().is_some_and(|t| !t.trim().is_empty() && format::parse_count(t).is_none())
        })
    });
    let typed = move |event: web_sys::Event| {
        let text = event_target_value(&event);
        let number = format::parse_count(&text);
        if number.is_some() || text.trim().is_empty() {
            choice.edit(key, |scenario| edit::set_config(scenario, key, number.map(Value::from)));
        }
        draft.set(Some(text));
    };
    let leave = move |_| {
        choice.end_gesture();
        draft.set(None);
    };
    let is_invalid = invalid(move || is_wrong.get() || faults.with(|faults| !faults.is_empty()));
    let complaint = move || {
        let text = settings.word(|w| w.form.whole_number);
        view! { <p class="complaint" role="alert">{text}</p> }.into_any()
    };
    view! {
        <div class="field shape-field">
            <label for=config_id(key) title=key>
                {name(settings, key)}
            </label>
            <input
                id=config_id(key)
                class="number"
                type="text"
                inputmode="numeric"
                autocomplete="off"
                prop:value=shown
                aria-invalid=is_invalid
                on:input=typed
                on:blur=leave
            />
            {when(move || is_wrong.get(), complaint)}
            <FaultList faults />
        </div>
    }
}

#[component]
fn ShapeFlag(key: &'static str) -> impl IntoView {
    let choice = expect_context::<Choice>();
    let settings = expect_context::<Settings>();
    let value = value(choice, key);
    let flip = move |event: web_sys::Event| {
        let on = event_target_checked(&event);
        choice.set(|scenario| edit::set_config(scenario, key, Some(Value::Bool(on))));
    };
    view! {
        <div class="field switch-field">
            <label class="switch" title=key>
                <input
                    type="checkbox"
                    role="switch"
                    id=config_id(key)
                    prop:checked=flag(move || value.get() == Some(Value::Bool(true)))
                    on:change=flip
                />
                <span>{name(settings, key)}</span>
            </label>
            <FaultList faults=at(key) />
        </div>
    }
}

fn at(key: &'static str) -> Signal<Vec<simulator::wire::Fault>> {
    Rules::here().faults(move |fault| fault.path.strip_prefix("model.config.") == Some(key))
}
