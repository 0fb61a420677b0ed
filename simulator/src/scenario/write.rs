//! A scenario document becomes text that [`read`](super::read) takes back unchanged.

use crate::wire::{Fault, Rule, Scenario};

/// Writes TOML.
///
/// # Errors
///
/// When `model.config` holds what TOML cannot: a null, or an integer above 2⁶³. A document that
/// came from [`read`](super::read) never does.
pub fn to_toml(scenario: &Scenario) -> Result<String, Fault> {
    toml::to_string(scenario)
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
