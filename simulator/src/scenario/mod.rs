//! The question, read and checked once: only a [`ValidScenario`] goes on to the simulation.

mod architecture;

pub use architecture::{Activation, Architecture, Gpt2, LlamaLike, SlidingWindow};

use crate::wire::{GpuProfile, Scenario};

/// A scenario whose every rule holds, with catalog entries looked up and defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidScenario {
    scenario: Scenario,
    model_name: String,
    architecture: Architecture,
    gpu: GpuProfile,
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

    /// The GPU.
    pub const fn gpu(&self) -> &GpuProfile {
        &self.gpu
    }
}
