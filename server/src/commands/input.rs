//! A scenario document from a file, from flags, or from a file whose fields the flags override.

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};
use simulator::catalog::Catalog;
use simulator::scenario::{self, Data, Format};
use simulator::wire::scenario::Model;

use crate::cli::Fields;

/// Reads the scenario that file and flags describe together; its rules are checked by the caller.
///
/// # Errors
///
/// When a file cannot be read or is no document.
pub(super) fn scenario(file: Option<&Path>, fields: &Fields) -> anyhow::Result<Value> {
    let mut document = match file {
        Some(file) => document(file)?,
        None => json!({"version": 1, "workload": {"micro_batch": 1}}),
    };
    overlay(&mut document, fields)?;
    if file.is_none() && document["workload"].get("seq_len").is_none() {
        let length = document.get("model").and_then(usual_length).unwrap_or(USUAL_LENGTH);
        set(&mut document, "workload.seq_len", json!(length));
    }
    Ok(document)
}

/// Tokens of a sequence when nobody says how many.
const USUAL_LENGTH: u64 = 1024;

/// The same for a model: none for images, and no more than it has positions for.
fn usual_length(model: &Value) -> Option<u64> {
    let model: Model = serde_json::from_value(model.clone()).ok()?;
    let architecture = scenario::architecture(&model, &Catalog::builtin())?;
    let family = architecture.family();
    if let Data::Images(_) = family.data() {
        return Some(0);
    }
    Some(family.positions().limit().unwrap_or(USUAL_LENGTH).min(USUAL_LENGTH))
}

/// The file as JSON, its fields unchecked.
fn document(file: &Path) -> anyhow::Result<Value> {
    let text = text(file)?;
    let format = format(file, &text);
    let parsed = match format {
        Format::Json => serde_json::from_str(&text).ok(),
        Format::Toml => toml::from_str(&text).ok(),
    };
    match parsed {
        Some(document) => Ok(document),
        // It is no document at all: the reader says where it breaks.
        None => Ok(serde_json::to_value(scenario::read(&text, format)?)?),
    }
}

/// The text of a file, or of standard input for `-`.
pub(super) fn text(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("standard input cannot be read")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))
}

/// By the file's extension, else by its first character.
fn format(file: &Path, text: &str) -> Format {
    let extension = file.extension().and_then(|extension| extension.to_str());
    match extension {
        Some("json") => Format::Json,
        Some("toml") => Format::Toml,
        _ if text.trim_start().starts_with('{') => Format::Json,
        _ => Format::Toml,
    }
}

/// Writes the given fields over the document's.
fn overlay(document: &mut Value, fields: &Fields) -> anyhow::Result<()> {
    if let Some(id) = &fields.model {
        set(document, "model", json!({ "id": id }));
    }
    if let Some(file) = &fields.config {
        set(document, "model", model(file)?);
    }
    let words = [
        ("hardware.gpu", &fields.gpu),
        ("precision", &fields.precision),
        ("optimizer.name", &fields.optimizer),
        ("optimizer.implementation", &fields.implementation),
        ("checkpointing", &fields.checkpointing),
        ("parallel.data", &fields.data),
        ("stack.attention", &fields.attention),
        ("stack.loss", &fields.loss),
        ("stack.alloc_conf", &fields.alloc_conf),
    ];
    let numbers = [
        ("workload.micro_batch", fields.micro_batch),
        ("workload.seq_len", fields.seq_len),
        ("workload.target_len", fields.target_len),
        ("workload.grad_accum", fields.grad_accum),
        ("hardware.count", fields.gpus),
        ("parallel.tensor", fields.tp),
        ("adapter.rank", fields.lora_rank),
        ("hardware.already_used_bytes", fields.already_used),
        ("hardware.process_cap_bytes", fields.process_cap),
    ];
    for (path, word) in words.iter().filter_map(|(path, word)| Some((path, word.as_ref()?))) {
        set(document, path, json!(word));
    }
    for (path, number) in numbers.iter().filter_map(|(path, number)| Some((path, (*number)?))) {
        set(document, path, json!(number));
    }
    if let Some(targets) = &fields.lora_targets {
        set(document, "adapter.targets", json!(targets));
    }
    if let Some(dropout) = fields.lora_dropout {
        set(document, "adapter.dropout", json!(dropout));
    }
    if let Some(momentum) = fields.momentum {
        set(document, "optimizer.momentum", json!(momentum));
    }
    let flags = [
        ("optimizer.clip_grad_norm", fields.clip),
        ("optimizer.in_backward", fields.in_backward),
        ("stack.tf32", fields.tf32),
        ("stack.compile", fields.compile),
        ("stack.activation_offload", fields.activation_offload),
    ];
    for (path, flag) in flags.iter().filter_map(|(path, flag)| Some((path, (*flag)?))) {
        set(document, path, json!(flag));
    }
    // The rule is a required word of the table that other flags may have just begun.
    if document.get("optimizer").is_some_and(|table| table.get("name").is_none()) {
        set(document, "optimizer.name", json!("adamw"));
    }
    Ok(())
}

/// Sets the field of a dotted path, making tables on the way. Where something else than a table
/// stands in the way it stays, for the reader to complain about.
fn set(document: &mut Value, path: &str, value: Value) {
    let mut at = document;
    for part in path.split('.') {
        let Some(table) = at.as_object_mut() else { return };
        at = table.entry(part).or_insert_with(|| json!({}));
    }
    *at = value;
}

/// The `model` table for a Hugging Face `config.json`.
fn model(file: &Path) -> anyhow::Result<Value> {
    let text = text(file)?;
    let imported = simulator::importers::hf_config(&text)?;
    Ok(serde_json::to_value(imported)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_override_the_document() {
        let mut document = json!({
            "model": {"kind": "gpt2", "config": {}},
            "workload": {"micro_batch": 1, "seq_len": 64},
            "stack": 7,
        });
        let fields = Fields {
            model: Some("gpt2".to_owned()),
            seq_len: Some(128),
            attention: Some("eager".to_owned()),
            clip: Some(true),
            tp: Some(2),
            gpus: Some(2),
            lora_rank: Some(8),
            lora_targets: Some(Vec::from(["c_attn".to_owned()])),
            already_used: Some(1 << 60),
            ..Fields::default()
        };
        overlay(&mut document, &fields).unwrap();
        let expected = json!({
            "model": {"id": "gpt2"},
            "workload": {"micro_batch": 1, "seq_len": 128},
            "optimizer": {"name": "adamw", "clip_grad_norm": true},
            "hardware": {"count": 2, "already_used_bytes": 1_u64 << 60},
            "parallel": {"tensor": 2},
            "adapter": {"rank": 8, "targets": ["c_attn"]},
            "stack": 7,
        });
        assert_eq!(document, expected);
    }
}
