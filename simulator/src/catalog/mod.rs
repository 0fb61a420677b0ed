//! Known models and GPUs, read from the data files under `simulator/data`.

use crate::wire::{GpuProfile, ModelCard};

/// All catalog entries, in the order shown to people.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    /// Models.
    pub models: Vec<ModelCard>,
    /// GPUs.
    pub gpus: Vec<GpuProfile>,
}
