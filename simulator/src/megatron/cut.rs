//! Parts of a job for summaries: a stage's construction and updates with all its layers, and its schedule
//! with few layers and micro-batches.

use crate::program::Run;
use crate::scenario::ValidScenario;
use crate::schedule::warmup;

use super::Job;
use super::rank::Rank;

/// What tells stages apart, the number of waiting forwards aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Whether it has the embedding.
    pub first: bool,
    /// Whether it has the loss.
    pub last: bool,
    /// Forwards before the first backward.
    pub warmup: u64,
    /// Forwards that are followed by a backward.
    pub steady: u64,
}

impl Stage {
    /// A stage of 1F1B.
    pub fn of(stages: u64, stage: u64, micro_batches: u64) -> Self {
        let warmup = warmup(stages, stage, micro_batches);
        Self {
            first: stage == 0,
            last: stage + 1 == stages,
            warmup,
            steady: micro_batches - warmup,
        }
    }
}

/// How much of a stage's schedule is run.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Layers of each chunk.
    pub layers: u64,
    /// Without virtual stages, a shorter schedule; with them, the stage whose own schedule is run.
    pub schedule: Result<Stage, u64>,
}

impl Job {
    /// A stage's job in full.
    ///
    /// # Panics
    ///
    /// When the scenario's model is not Megatron-core's: validation holds it.
    pub fn build_stage(scenario: &ValidScenario, stage: u64) -> (Self, Run) {
        let config = scenario.megatron().expect("the scenario is Megatron-core's").clone();
        Self::of_rank(scenario, config, Rank { stage, ..Rank::of(scenario) })
    }

    /// Layers of each of its chunks.
    pub fn chunk_layers(&self) -> u64 {
        let rank = &self.model.rank;
        rank.layers(&self.model.config, 0).1
    }

    /// The same job with few layers and micro-batches, for its schedule alone.
    pub fn cut(&self, scenario: &ValidScenario, cut: Cut) -> Self {
        let mut rank = self.model.rank.clone();
        match cut.schedule {
            Ok(stage) => {
                rank.stage = u64::from(!stage.first);
                rank.pipeline = rank.stage + 1 + stage.warmup;
                rank.micro_batches = stage.warmup + stage.steady;
            }
            Err(stage) => rank.stage = stage,
        }
        let layers = cut.layers * rank.pipeline * rank.chunks;
        let config = crate::scenario::MegatronGpt { layers, ..self.model.config.clone() };
        let (mut job, _) = Self::of_rank(scenario, config, rank);
        job.alike = self.alike;
        job
    }

    /// Forwards and backwards of a step; what follows them is that the step's data go.
    pub fn run_schedule(&mut self) -> Run {
        self.forward_backward();
        self.end_data();
        self.take_run()
    }

    /// Clipping and optimizer of a step.
    pub fn run_update(&mut self) -> Run {
        self.update();
        self.take_run()
    }
}
