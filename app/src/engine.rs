//! The simulator as the page's own thread uses it: catalog, checks, presets. Simulating is the worker's.

use std::sync::OnceLock;

use leptos::prelude::*;
use serde_json::Value;
use simulator::catalog::Catalog;
use simulator::importers::hf_config;
use simulator::scenario::{self, Preset, from_value, validate};
use simulator::wire::scenario::Model;
use simulator::wire::{Fault, Faults, Note, Scenario};

use crate::field::FieldName;
use crate::state::Choice;

/// The catalog, read once.
pub(crate) fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(Catalog::builtin)
}

/// Plans to start from; the first is the page's default.
pub(crate) fn presets() -> &'static [Preset] {
    static PRESETS: OnceLock<Vec<Preset>> = OnceLock::new();
    PRESETS.get_or_init(scenario::presets)
}

/// What a file turned out to be.
pub(crate) enum Imported {
    Model(Model),
    Scenario(Box<Scenario>),
}

/// Reads a `config.json`, or a scenario as JSON. (TOML is the command line's: its parser would be a
/// tenth of what the page transfers.)
///
/// # Errors
///
/// Every fault, with the file's own paths.
pub(crate) fn import(text: &str) -> Result<Imported, Faults> {
    match serde_json::from_slice::<Value>(text.as_bytes()) {
        Ok(document) if document.get("workload").is_some() => {
            let scenario = from_value(&document);
            let all = |faults| scenario::check(&document, catalog()).err().unwrap_or(faults);
            scenario.map(|scenario| Imported::Scenario(Box::new(scenario))).map_err(all)
        }
        _ => hf_config(text).map(Imported::Model),
    }
}

/// What the rules say about a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Checked {
    /// Rules that it breaks.
    pub faults: Vec<Fault>,
    /// What a reader should know although it breaks none.
    pub notes: Vec<Note>,
}

fn check(scenario: &Scenario) -> Checked {
    match validate(scenario, catalog()) {
        Ok(valid) => Checked { faults: Vec::new(), notes: valid.notes().to_vec() },
        Err(faults) => Checked { faults: faults.0, notes: Vec::new() },
    }
}

/// What the rules say about the scenario on the page.
#[derive(Clone, Copy)]
pub(crate) struct Rules(Memo<Checked>);

impl Rules {
    pub(crate) fn new(choice: Choice) -> Self {
        Self(Memo::new(move |_| choice.scenario.with(check)))
    }

    /// Those of this page.
    pub(crate) fn here() -> Self {
        expect_context::<Self>()
    }

    /// The faults that a field shows.
    pub(crate) fn faults_at(self, field: FieldName) -> Signal<Vec<Fault>> {
        self.faults(move |fault| field.owns(&fault.path))
    }

    /// The faults that a predicate picks.
    pub(crate) fn faults(
        self,
        pick: impl Fn(&Fault) -> bool + Send + Sync + 'static,
    ) -> Signal<Vec<Fault>> {
        let picked = Memo::new(move |_| {
            self.0.with(|checked| checked.faults.iter().filter(|f| pick(f)).cloned().collect())
        });
        picked.into()
    }

    /// The notes that a field shows.
    pub(crate) fn notes_at(self, field: FieldName) -> Signal<Vec<Note>> {
        let picked = Memo::new(move |_| {
            let notes = |checked: &Checked| {
                checked.notes.iter().filter(|note| field.owns(&note.path)).cloned().collect()
            };
            self.0.with(notes)
        });
        picked.into()
    }

    pub(crate) fn is_broken(self) -> bool {
        self.0.with(|checked| !checked.faults.is_empty())
    }

    pub(crate) fn count(self) -> usize {
        self.0.with(|checked| checked.faults.len())
    }
}
