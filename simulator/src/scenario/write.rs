//! A scenario document becomes text that [`read`](super::read) takes back unchanged.

use super::portable;
use crate::wire::scenario::Model;
use crate::wire::{Fault, Rule, Scenario};

/// Writes TOML.
///
/// # Errors
///
/// When a number is above 2⁶³, which TOML cannot hold; a valid scenario has none.
pub fn to_toml(scenario: &Scenario) -> Result<String, Fault> {
    let mut scenario = scenario.clone();
    if let Model::Inline { config, .. } = &mut scenario.model {
        *config = portable(config);
    }
    toml::to_string(&scenario)
        .map_err(|error| Fault::new("", Rule::Type, format!("cannot be written as TOML: {error}")))
}

/// Writes JSON, indented.
///
/// # Errors
///
/// None that a scenario can cause; the writer's own error is passed on.
pub fn to_json(scenario: &Scenario) -> Result<String, Fault> {
    serde_json::to_string_pretty(scenario)
        .map_err(|error| Fault::new("", Rule::Type, format!("cannot be written as JSON: {error}")))
}
