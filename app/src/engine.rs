//! The simulator as the page's own thread uses it: catalog, checks, presets. Simulating is the worker's.

use std::sync::OnceLock;

use leptos::prelude::*;
use simulator::catalog::Catalog;
use simulator::importers::hf_config;
use simulator::scenario::{self, Preset, from_value, validate};
use simulator::wire::scenario::Model;
use simulator::wire::{Fault, Faults, Note, Scenario};

use crate::applies::{Shape, applies};
use crate::erased::memo;
use crate::field::{self, FieldName};
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
    match scenario::parse_json(text) {
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
    /// Fields that mean nothing for it.
    folded: Vec<FieldName>,
    shape: Shape,
}

/// Checks a scenario; a model at fault keeps the fields of the one before.
fn check(scenario: &Scenario, before: Option<&Checked>) -> Checked {
    let (faults, notes, shape) = match validate(scenario, catalog()) {
        Ok(valid) => (Vec::new(), valid.notes().to_vec(), Some(Shape::of(valid.architecture()))),
        Err(faults) => (faults.0, Vec::new(), shape(&scenario.model)),
    };
    let shape = shape.or_else(|| before.map(|before| before.shape.clone())).unwrap_or_default();
    let folded = FieldName::ALL.into_iter().filter(|field| !applies(*field, scenario, &shape));
    Checked { faults, notes, folded: folded.collect(), shape }
}

/// What a model's family says; `None` when its fields are at fault.
pub(crate) fn shape(model: &Model) -> Option<Shape> {
    scenario::architecture(model, catalog()).as_ref().map(Shape::of)
}

/// How many rules a scenario breaks.
pub(crate) fn fault_count(scenario: &Scenario) -> usize {
    validate(scenario, catalog()).err().map_or(0, |faults| faults.0.len())
}

/// What the rules say about the scenario on the page.
#[derive(Clone, Copy)]
pub(crate) struct Rules(Memo<Checked>);

impl Rules {
    pub(crate) fn new(choice: Choice) -> Self {
        Self(Memo::new(move |before| choice.scenario.with(|now| check(now, before))))
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
        let picked = memo(move || {
            self.0.with(|checked| checked.faults.iter().filter(|f| pick(f)).cloned().collect())
        });
        picked.into()
    }

    /// The faults that no field shows, beside the given keys of an inline model.
    pub(crate) fn homeless(self, keys: Memo<&'static [&'static str]>) -> Signal<Vec<Fault>> {
        let picked = memo(move || {
            let keys = keys.get();
            let homeless = |checked: &Checked| {
                let faults = checked.faults.iter();
                faults
                    .filter(|fault| field::is_homeless(&fault.path, keys, &checked.folded))
                    .cloned()
                    .collect()
            };
            self.0.with(homeless)
        });
        picked.into()
    }

    /// Whether a field means something for the scenario.
    pub(crate) fn applies(self, field: FieldName) -> bool {
        self.0.with(|checked| !checked.folded.contains(&field))
    }

    /// The modules that an adapter may target.
    pub(crate) fn projections(self) -> Vec<&'static str> {
        self.0.with(|checked| checked.shape.projections.clone())
    }

    /// The notes that a field shows.
    pub(crate) fn notes_at(self, field: FieldName) -> Signal<Vec<Note>> {
        let picked = memo(move || {
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

#[cfg(test)]
mod tests {
    use simulator::wire::parallel::DataParallel;
    use simulator::wire::scenario::{Adapter, AdapterKind, BaseFormat, OptimizerName};

    use super::*;

    fn adapter(target: &str) -> Adapter {
        let targets = Vec::from([target.to_owned()]);
        Adapter {
            kind: AdapterKind::Lora,
            rank: 8,
            targets,
            dropout: 2.0,
            autocast: true,
            base: BaseFormat::Whole,
            base_head: false,
            stable_embedding: false,
        }
    }

    #[test]
    fn every_fault_stands_at_a_field_that_is_shown() {
        let changes: [fn(&mut Scenario); 9] = [
            |plan| plan.hardware.count = 8,
            |plan| plan.parallel.data = Some(DataParallel::Fsdp2),
            |plan| {
                plan.hardware.count = 8;
                plan.parallel.tensor = 2;
                plan.parallel.data = Some(DataParallel::Fsdp2);
                plan.optimizer.name = OptimizerName::Muon;
                plan.adapter = Some(adapter("q_proj"));
            },
            |plan| {
                plan.parallel.data = Some(DataParallel::Ddp);
                plan.parallel.ddp.bucket_cap_mb = 0;
            },
            |plan| plan.adapter = Some(adapter("query")),
            |plan| plan.optimizer.centered = true,
            |plan| plan.optimizer.momentum = Some(0.9),
            |plan| plan.workload.target_len = 7,
            |plan| plan.model = Model::Catalog { id: "vit-base-patch16-224".to_owned() },
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut plan = presets()[0].scenario.clone();
            change(&mut plan);
            let checked = check(&plan, None);
            assert!(!checked.faults.is_empty(), "{index}");
            for fault in &checked.faults {
                assert!(!field::is_homeless(&fault.path, &[], &checked.folded), "{index}: {fault}");
            }
        }
    }

    #[test]
    fn a_model_at_fault_keeps_the_fields_of_the_one_before() {
        let mut plan = presets()[0].scenario.clone();
        let before = check(&plan, None);
        plan.model = Model::Catalog { id: "no such model".to_owned() };
        assert_eq!(check(&plan, Some(&before)).folded, before.folded);
    }
}
