//! A Hugging Face `config.json` becomes the model of a scenario.

use serde_json::{Map, Value};

use crate::scenario::{Word, config, missing, parse_json, portable, type_fault};
use crate::wire::scenario::Model;
use crate::wire::{Fault, Faults, ModelKind, Rule};

/// Reads the text of a `config.json` of one of the supported classes.
///
/// A multimodal model's nested `text_config` is taken as the language model. Only the fields that
/// the class reads are kept; those of a real file that say nothing about memory (tokens, dtype,
/// versions, rope settings) are left out.
///
/// # Errors
///
/// Every fault at once, with the file's own field paths. A class that is not simulated is
/// `unsupported`, and the fault lists those that are.
pub fn hf_config(text: &str) -> Result<Model, Faults> {
    let document = parse_json(text)?;
    let Value::Object(root) = &document else {
        return Err(type_fault("", "a table of fields", &document).into());
    };
    let (path, fields) = language_model(root);
    let kind = kind(&path, &fields)?;
    let mut faults = Faults::default();
    check_head(root, &mut faults);
    config::architecture(kind, &fields, &path, &mut faults);
    faults.or(Model::Inline { kind, config: portable(&config::relevant(kind, &fields)) })
}

/// The language model's fields and where they stand. A multimodal file may keep
/// `tie_word_embeddings` outside.
fn language_model(root: &Map<String, Value>) -> (String, Map<String, Value>) {
    let Some(Value::Object(inner)) = root.get("text_config") else {
        return (String::new(), root.clone());
    };
    let mut fields = inner.clone();
    if let (None, Some(tied)) = (inner.get("tie_word_embeddings"), root.get("tie_word_embeddings"))
    {
        fields.insert("tie_word_embeddings".to_owned(), tied.clone());
    }
    ("text_config".to_owned(), fields)
}

/// Heads of transformers' text models that are not simulated, by the end of the class's name.
const OTHER_HEADS: [&str; 5] = [
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
    "ForNextSentencePrediction",
];

/// The class that was saved has the head that is simulated: a classifier's file says `llama`, too.
fn check_head(root: &Map<String, Value>, faults: &mut Faults) {
    let Some(Value::Array(classes)) = root.get("architectures") else { return };
    for class in classes.iter().filter_map(Value::as_str) {
        if OTHER_HEADS.iter().any(|head| class.ends_with(head)) {
            let reason = format!("the head of `{class}` is not simulated yet");
            let fault = Fault::new("architectures", Rule::Unsupported, reason.as_str());
            faults.push(fault.arguments([reason]));
        }
    }
}

fn kind(path: &str, fields: &Map<String, Value>) -> Result<ModelKind, Fault> {
    let at = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let model_type = match fields.get("model_type") {
        None | Some(Value::Null) => return Err(missing(at("model_type"))),
        Some(Value::String(model_type)) => model_type,
        Some(other) => return Err(type_fault(&at("model_type"), "a text", other)),
    };
    let words: Vec<&str> = ModelKind::WORDS.iter().map(|(word, _)| *word).collect();
    let found = ModelKind::WORDS.iter().find(|(word, _)| word == model_type);
    found.map(|(_, kind)| *kind).ok_or_else(|| {
        let message = format!(
            "models of type `{model_type}` are not simulated yet; these are: {}",
            words.join(", ")
        );
        let mut fault = Fault::new(at("model_type"), Rule::Unsupported, message);
        let arguments = [model_type.as_str()].into_iter().chain(words.iter().copied());
        fault.arguments = arguments.map(str::to_owned).collect();
        fault
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LLAMA: &str = r#"{
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": false,
        "bos_token_id": 128000, "eos_token_id": [128001, 128008], "hidden_act": "silu",
        "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
        "max_position_embeddings": 131072, "mlp_bias": false, "num_attention_heads": 32,
        "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1,
        "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": true,
        "rope_scaling": {"factor": 32.0, "rope_type": "llama3", "low_freq_factor": null},
        "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0", "use_cache": true,
        "vocab_size": 128256, "head_dim": 64, "unsloth_fixed": true }"#;

    fn rules(text: &str) -> Vec<(String, Rule)> {
        let faults = hf_config(text).unwrap_err().0;
        faults.into_iter().map(|fault| (fault.path, fault.rule)).collect()
    }

    #[test]
    fn a_real_file_keeps_what_the_class_reads() {
        let Model::Inline { kind, config } = hf_config(LLAMA).unwrap() else { panic!("inline") };
        assert_eq!(kind, ModelKind::Llama);
        assert_eq!(config["hidden_size"], 2048);
        assert_eq!(config["head_dim"], 64);
        assert!(!config.contains_key("rope_scaling") && !config.contains_key("torch_dtype"));
    }

    #[test]
    fn a_multimodal_file_gives_its_language_model() {
        let text = format!(
            r#"{{"model_type": "mllama", "tie_word_embeddings": true, "vision_config": {{"a": 1}},
                "text_config": {}}}"#,
            LLAMA.replace("\"tie_word_embeddings\": true,", "")
        );
        let Model::Inline { config, .. } = hf_config(&text).unwrap() else { panic!("inline") };
        assert_eq!(config["tie_word_embeddings"], true);
        let broken = text.replace("\"hidden_size\": 2048", "\"hidden_size\": \"wide\"");
        assert_eq!(rules(&broken), [("text_config.hidden_size".to_owned(), Rule::Type)]);
    }

    #[test]
    fn files_of_gemma_and_phi_are_read() {
        let check = |text: &str, kind: ModelKind, keys: &[&str]| {
            let model = hf_config(text).unwrap();
            let Model::Inline { kind: found, config } = model else { panic!("inline") };
            assert_eq!(found, kind);
            for key in keys {
                assert!(config.contains_key(*key), "{key}");
            }
        };
        let gemma2 = r#"{
            "architectures": ["Gemma2ForCausalLM"], "attention_bias": false,
            "attention_dropout": 0.0, "attn_logit_softcapping": 50.0, "bos_token_id": 2,
            "cache_implementation": "hybrid", "eos_token_id": 1, "final_logit_softcapping": 30.0,
            "head_dim": 128, "hidden_act": "gelu_pytorch_tanh",
            "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 4608,
            "initializer_range": 0.02, "intermediate_size": 36864,
            "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 32,
            "num_hidden_layers": 46, "num_key_value_heads": 16, "pad_token_id": 0,
            "query_pre_attn_scalar": 144, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
            "sliding_window": 4096, "sliding_window_size": 4096, "torch_dtype": "float32",
            "transformers_version": "4.42.0.dev0", "use_cache": true, "vocab_size": 256000 }"#;
        check(gemma2, ModelKind::Gemma2, &["sliding_window", "final_logit_softcapping"]);
        let gemma3 = r#"{
            "_sliding_window_pattern": 6, "architectures": ["Gemma3ForCausalLM"],
            "attention_bias": false, "attention_dropout": 0.0, "attn_logit_softcapping": null,
            "cache_implementation": "hybrid", "dtype": "bfloat16",
            "final_logit_softcapping": null, "head_dim": 256,
            "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 640,
            "intermediate_size": 2048, "layer_types": ["sliding_attention", "full_attention"],
            "max_position_embeddings": 32768, "model_type": "gemma3_text",
            "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 1,
            "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
            "rope_local_base_freq": 10000.0, "rope_scaling": null, "rope_theta": 1000000.0,
            "sliding_window": 512, "use_bidirectional_attention": false, "use_cache": true,
            "vocab_size": 262144 }"#;
        check(gemma3, ModelKind::Gemma3Text, &["layer_types", "attn_logit_softcapping"]);
        let phi4 = r#"{
            "architectures": ["Phi3ForCausalLM"], "attention_bias": false,
            "attention_dropout": 0.0, "auto_map": {"AutoTokenizer": "Xenova/gpt-4o"},
            "bos_token_id": 199999, "embd_pdrop": 0.0, "eos_token_id": 200020,
            "full_attn_mod": 1, "hidden_act": "silu", "hidden_size": 3072,
            "initializer_range": 0.02, "intermediate_size": 8192, "interpolate_factor": 1,
            "lm_head_bias": false, "max_position_embeddings": 131072, "mlp_bias": false,
            "model_type": "phi3", "num_attention_heads": 24, "num_hidden_layers": 32,
            "num_key_value_heads": 8, "original_max_position_embeddings": 4096,
            "pad_token_id": 199999, "partial_rotary_factor": 0.75, "resid_pdrop": 0.0,
            "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
            "rope_scaling": {"long_factor": [1, 1.118], "short_factor": [1.0, 1.0],
                "type": "longrope"},
            "sliding_window": 262144, "tie_word_embeddings": true, "use_cache": true,
            "vocab_size": 200064 }"#;
        check(phi4, ModelKind::Phi3, &["rope_scaling", "partial_rotary_factor"]);
    }

    #[test]
    fn an_absent_window_and_a_null_one_differ() {
        let window = |field: &str| {
            let text = format!(r#"{{"model_type": "mistral"{field}}}"#);
            let Model::Inline { config, .. } = hf_config(&text).unwrap() else { panic!("inline") };
            config.get("sliding_window").cloned()
        };
        assert_eq!(window(""), None);
        assert_eq!(window(r#", "sliding_window": null"#), Some(Value::from(0)));
    }

    #[test]
    fn faults_name_the_field() {
        let check = |text: &str, expected: &[(&str, Rule)]| {
            let found = rules(text);
            let found: Vec<_> = found.iter().map(|(path, rule)| (path.as_str(), *rule)).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("{", &[("", Rule::Syntax)]);
        check("[]", &[("", Rule::Type)]);
        check("{}", &[("model_type", Rule::Missing)]);
        check(r#"{"model_type": "mamba"}"#, &[("model_type", Rule::Unsupported)]);
        check(
            r#"{"model_type": "llama", "vocab_size": 1, "vocab_size": 2}"#,
            &[("", Rule::Syntax)],
        );
        check(
            r#"{"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}"#,
            &[("architectures", Rule::Unsupported)],
        );
        check(
            r#"{"model_type": "llama", "num_local_experts": 8, "quantization_config": {"bits": 4},
                "hidden_act": "mish", "num_hidden_layers": 0, "num_key_value_head": 8}"#,
            &[
                ("num_hidden_layers", Rule::Range),
                ("hidden_act", Rule::Unsupported),
                ("num_key_value_head", Rule::UnknownField),
                ("num_local_experts", Rule::Unsupported),
                ("quantization_config", Rule::Unsupported),
            ],
        );
        check(
            r#"{"model_type": "llama", "num_attention_heads": 7, "num_key_value_heads": 3}"#,
            &[("num_attention_heads", Rule::Divisible), ("num_key_value_heads", Rule::Divisible)],
        );
    }

    proptest! {
        #[test]
        fn every_text_and_every_cut_has_an_answer(text in ".{0,80}", cut in 0..LLAMA.len()) {
            prop_assert!(hf_config(&text).is_err());
            prop_assert!(LLAMA.get(..cut).is_none_or(|part| hf_config(part).is_err()));
        }
    }
}
