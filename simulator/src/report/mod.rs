//! What the user asked: does it fit, what stands at the peak, how long is a step, and why.

mod figures;
mod ranks;
mod step;
mod verdict;

pub use figures::figures;
pub use ranks::{highest, place, ranks};
pub use step::{TimeContext, step_report, time_report};
pub use verdict::{End, Footprint, Trial, largest_workspace, verdict};

use crate::scenario::ValidScenario;
use crate::units::{Bytes, MIB};
use crate::wire::report::{Engine, GpuFacts, ModelFacts};

/// Number of the prediction rules; it grows by one whenever a rule changes a prediction.
pub const PREDICTIONS: u64 = 4;

/// This program.
pub fn engine() -> Engine {
    Engine { version: env!("CARGO_PKG_VERSION").to_owned(), predictions: PREDICTIONS }
}

/// How many parameters a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterCounts {
    /// All, a tied one counted once.
    pub total: u64,
    /// Those that get a gradient.
    pub trainable: u64,
    /// Those that this rank keeps.
    pub local: u64,
}

/// Facts of the model.
pub fn model_facts(scenario: &ValidScenario, counts: ParameterCounts) -> ModelFacts {
    let family = scenario.family();
    let weight_bytes = figures::weight_dtype(scenario).bytes();
    ModelFacts {
        name: scenario.model_name().to_owned(),
        class: family.class().to_owned(),
        parameters: counts.total,
        trainable_parameters: Some(counts.trainable),
        rank_parameters: (counts.local != counts.total).then_some(counts.local),
        buffer_bytes: Bytes::new(family.buffer_bytes(weight_bytes)),
        layers: family.layers(),
    }
}

/// Facts of the GPU.
pub fn gpu_facts(scenario: &ValidScenario) -> GpuFacts {
    let gpu = scenario.gpu();
    let notes = scenario.notes().iter().filter(|note| note.topic.is_unverified());
    let unverified = notes.map(|note| note.message.clone()).collect();
    GpuFacts {
        id: gpu.id.clone(),
        name: gpu.name.clone(),
        capacity_bytes: Bytes::new(gpu.usable_mib * MIB),
        unverified,
    }
}
