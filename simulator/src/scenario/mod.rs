//! The question, read and checked once: only a [`ValidScenario`] goes on to the simulation.

mod attention;
mod compile;
pub(crate) mod config;
mod document;
mod families;
pub mod limits;
mod megatron;
mod notes;
mod parallel;
mod presets;
mod read;
mod savings;
mod size;
mod unique;
mod validate;
mod words;
mod write;
mod zero;

pub use families::{
    Act, Activation, Architecture, Bert, Conv, Data, Engine, Excite, ExpertLoad, Experts, Falcon,
    Family, Gemma, Gpt2, Join, Latent, LlamaLike, MegatronGpt, Mixture, Normalization, Op, Opt,
    Parallel, Phi3, Position, Positions, Projection, Residual, Router, SlidingWindow, Slot, T5,
    Task, Vision, Vit, Window, adapter_parameters, slots,
};
pub(crate) use families::{CHANNELS, POSITION_OFFSET};
pub use presets::{Preset, presets};
pub use read::{Format, check, from_value, parse_json, read, read_valid};
pub use size::parse_size;
pub use validate::{architecture, validate};
pub use words::Word;
pub use write::{to_json, to_toml};

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub(crate) use document::{Table, missing, type_fault};
pub(crate) use read::portable;

use crate::catalog::OutsideEstimate;
use crate::wire::{GpuProfile, Note, Scenario};

/// A scenario whose every rule holds, with catalog entries looked up and defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidScenario {
    scenario: Scenario,
    model_name: String,
    architecture: Architecture,
    gpu: GpuProfile,
    outside_pool: OutsideEstimate,
    notes: Vec<Note>,
}

impl ValidScenario {
    /// The document, with defaults filled in.
    pub const fn document(&self) -> &Scenario {
        &self.scenario
    }

    /// The model's name for people.
    pub fn model_name(&self) -> &str {
        &self.model_name
    }

    /// The model's shape.
    pub const fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The model, when it is Megatron-core's.
    pub const fn megatron(&self) -> Option<&MegatronGpt> {
        match &self.architecture {
            Architecture::Megatron(model) => Some(model),
            _ => None,
        }
    }

    /// What the model's family says about it.
    pub fn family(&self) -> &dyn Family {
        self.architecture.family()
    }

    /// The same question about a model with other numbers of layers of each kind (see
    /// [`Family::layer_kinds`]) and of micro-batches.
    pub(crate) fn with_extent(&self, layers: [u64; 2], grad_accum: u64) -> Self {
        let mut other = self.clone();
        other.architecture.family_mut().set_layer_kinds(layers);
        other.scenario.workload.grad_accum = grad_accum;
        other
    }

    /// The same question about another pipeline stage.
    pub(crate) fn with_stage(&self, stage: u64) -> Self {
        let mut other = self.clone();
        other.scenario.parallel.stage = stage;
        other
    }

    /// The GPU.
    pub const fn gpu(&self) -> &GpuProfile {
        &self.gpu
    }

    /// Bytes on the GPU outside the allocator's pool.
    pub const fn outside_pool(&self) -> &OutsideEstimate {
        &self.outside_pool
    }

    /// What a reader should know although every rule holds.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}
