//! A training process of either stack.

use crate::megatron::Job;
use crate::program;
use crate::program::Run;
use crate::scenario::ValidScenario;

/// The process that a scenario describes.
#[derive(Debug)]
pub enum Process<'a> {
    /// A transformers class in a plain PyTorch loop.
    Transformers(Box<program::Process<'a>>),
    /// A rank of a Megatron-core job.
    Megatron(Box<Job>),
}

impl<'a> Process<'a> {
    /// Builds it; returns what that allocated.
    pub fn build(scenario: &'a ValidScenario) -> (Self, Run) {
        if scenario.megatron().is_some() {
            let (job, run) = Job::build(scenario);
            return (Self::Megatron(Box::new(job)), run);
        }
        let (process, run) = program::Process::build(scenario);
        (Self::Transformers(Box::new(process)), run)
    }

    /// Runs one optimizer step.
    pub fn step(&mut self) -> Run {
        match self {
            Self::Transformers(process) => process.step(),
            Self::Megatron(job) => job.step(),
        }
    }

    /// Names of the parameters, by their ids.
    pub fn parameter_names(&self) -> Vec<String> {
        match self {
            Self::Transformers(process) => process.parameter_names(),
            Self::Megatron(job) => job.parameter_names(),
        }
    }

    /// Parameters that this process holds, a tied one counted once.
    pub fn parameters(&self) -> u64 {
        match self {
            Self::Transformers(process) => process.parameters(),
            Self::Megatron(job) => job.parameters(),
        }
    }

    /// Parameters that this rank keeps.
    pub fn local_parameters(&self) -> u64 {
        match self {
            Self::Transformers(process) => process.local_parameters(),
            Self::Megatron(job) => job.local_parameters(),
        }
    }

    /// Leaves the optimizer out of the first steps, as a gradient scaler does.
    pub fn skip_updates(&mut self, steps: u64) {
        if let Self::Transformers(process) = self {
            process.skip_updates(steps);
        }
    }

    /// Parameters that get a gradient.
    pub fn trainable_parameters(&self) -> u64 {
        match self {
            Self::Transformers(process) => process.trainable_parameters(),
            Self::Megatron(job) => job.parameters(),
        }
    }
}
