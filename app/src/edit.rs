//! Changes of a scenario by field path, for mends: the path that a fault names is the path that is set.

use serde_json::{Map, Value};
use simulator::scenario::from_value;
use simulator::wire::scenario::{Model, Scenario};
use simulator::wire::{Mend, ModelCard};

/// The scenario with one field set, or `None` when the value cannot stand there.
pub(crate) fn apply(scenario: &Scenario, mend: &Mend) -> Option<Scenario> {
    // By way of text, so that only one reader and one writer of scenarios is compiled.
    let mut document: Value = serde_json::from_slice(&serde_json::to_vec(scenario).ok()?).ok()?;
    let mut place = &mut document;
    for key in mend.path.split('.').filter(|key| !key.is_empty()) {
        // A table that is left out has its defaults.
        if place.is_null() {
            *place = Value::Object(Map::new());
        }
        place = place.as_object_mut()?.entry(key).or_insert(Value::Null);
    }
    *place = mend.value.clone();
    from_value(&document).ok()
}

/// The value that a mend sets, as people write it.
pub(crate) fn shown(mend: &Mend) -> String {
    match &mend.value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            texts.join(", ")
        }
        other => other.to_string(),
    }
}

/// The catalog entry as a model whose shape can be edited.
pub(crate) fn inline(card: &ModelCard) -> Model {
    Model::Inline { kind: card.kind, config: card.config.clone() }
}

/// The configuration of an inline model.
pub(crate) fn config(scenario: &Scenario) -> Option<&Map<String, Value>> {
    match &scenario.model {
        Model::Inline { config, .. } => Some(config),
        Model::Catalog { .. } => None,
    }
}

/// Sets a key of an inline model's configuration; `None` takes it out.
pub(crate) fn set_config(scenario: &mut Scenario, key: &str, value: Option<Value>) {
    if let Model::Inline { config, .. } = &mut scenario.model {
        match value {
            Some(value) => config.insert(key.to_owned(), value),
            None => config.remove(key),
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scenario() -> Scenario {
        serde_json::from_value(json!({
            "version": 1,
            "model": {"kind": "llama", "config": {"num_attention_heads": 7}},
            "hardware": {"gpu": "h100-sxm"},
            "workload": {"micro_batch": 1, "seq_len": 4096},
        }))
        .expect("a scenario")
    }

    fn mend(path: &str, value: Value) -> Mend {
        Mend { path: path.into(), value }
    }

    #[test]
    fn a_mend_sets_the_field_it_names() {
        let mended = apply(&scenario(), &mend("workload.seq_len", json!(2048)));
        assert_eq!(mended.map(|s| s.workload.seq_len), Some(2048));
        let mended = apply(&scenario(), &mend("model.config.num_attention_heads", json!(8)));
        let heads = mended.as_ref().and_then(config).map(|c| c["num_attention_heads"].clone());
        assert_eq!(heads, Some(json!(8)));
        let absent = apply(&scenario(), &mend("hardware.process_cap_bytes", json!(5)));
        assert_eq!(absent.and_then(|s| s.hardware.process_cap_bytes), Some(5));
        let in_absent_table = apply(&scenario(), &mend("parallel.data", json!("ddp")));
        assert!(in_absent_table.is_some_and(|s| s.parallel.data.is_some()));
    }

    #[test]
    fn a_mend_of_the_wrong_type_changes_nothing() {
        assert_eq!(apply(&scenario(), &mend("workload.seq_len", json!("many"))), None);
        assert_eq!(apply(&scenario(), &mend("precision.deeper", json!(1))), None);
        assert_eq!(
            apply(&scenario(), &mend("adapter.rank", json!(8))),
            None,
            "targets are missing"
        );
    }
}
