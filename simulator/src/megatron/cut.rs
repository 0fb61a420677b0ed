//! Parts of a job for summaries: a stage's construction and updates with all its layers, and its schedule
//! with few layers and micro-batches.

use crate::program::Run;
use crate::scenario::{MegatronGpt, ValidScenario};
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

/// Whose schedule is run.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// Without virtual stages: any stage's, which may be a shorter one.
    Plain(Stage),
    /// With virtual stages: this one's.
    Interleaved(u64),
}

impl Job {
    /// A stage's job in full.
    ///
    /// # Panics
    ///
    /// When the scenario's model is not Megatron-core's: validation holds it.
    pub fn build_stage(scenario: &ValidScenario, stage: u64) -> (Self, Run) {
        let config = scenario.megatron().expect("the scenario is Megatron-core's").clone();
        Self::requests_of(scenario, config, Rank { stage, ..Rank::of(scenario) })
    }

    fn requests_of(scenario: &ValidScenario, config: MegatronGpt, rank: Rank) -> (Self, Run) {
        let (mut job, build) = Self::of_rank(scenario, config, rank);
        job.tape.leave_out_operations();
        (job, build)
    }

    /// Layers of each of its chunks.
    pub fn chunk_layers(&self) -> Vec<u64> {
        self.model.chunks.iter().map(|chunk| chunk.layers.len() as u64).collect()
    }

    /// A job of so many layers a chunk, for its schedule.
    ///
    /// # Panics
    ///
    /// When the scenario's model is not Megatron-core's: validation holds it.
    pub fn cut(scenario: &ValidScenario, layers: u64, order: Order) -> (Self, Run) {
        let config = scenario.megatron().expect("the scenario is Megatron-core's");
        let mut rank = Rank::of(scenario);
        match order {
            Order::Plain(stage) => {
                rank.chunks = 1;
                rank.stage = u64::from(!stage.first);
                rank.pipeline = rank.stage + 1 + if stage.last { 0 } else { stage.warmup.max(1) };
                rank.micro_batches = stage.warmup + stage.steady;
            }
            Order::Interleaved(stage) => rank.stage = stage,
        }
        let config = MegatronGpt {
            layers: layers * rank.pipeline * rank.chunks,
            end_layers: [None; 2],
            split_embedding: false,
            split_loss: false,
            ..config.clone()
        };
        Self::requests_of(scenario, config, rank)
    }

    /// What follows the last backward is as large as in a job of all layers.
    pub const fn ends_as(&mut self, whole: &Self) {
        self.alike = whole.alike;
    }

    /// Forwards and backwards of a step; what follows them is that the step's data go.
    pub fn run_schedule(&mut self) -> Run {
        self.forward_backward();
        self.end_data();
        self.take_run()
    }

    /// The same with few micro-batches: the first forward of each chunk and the first backward are as in
    /// the whole schedule.
    pub fn run_shorter(&mut self) -> Run {
        let rank = &mut self.model.rank;
        if 1 < rank.chunks {
            rank.micro_batches = rank.micro_batches.min(2 * rank.pipeline);
        } else {
            let warmup = warmup(rank.pipeline, rank.stage, rank.micro_batches);
            let steady = rank.micro_batches - warmup;
            let warmup = warmup.min(1);
            rank.pipeline = rank.pipeline.min(rank.stage + 1 + warmup);
            rank.micro_batches = warmup + steady.min(1);
        }
        self.run_schedule()
    }

    /// The next step up to its first forward, without virtual stages; the job ends there.
    pub fn run_first_forward(mut self) -> Run {
        self.begin_one_forward_one_backward();
        Run { record: self.tape.into_record(), origin: Vec::new() }
    }

    /// Clipping and optimizer of a step.
    pub fn run_update(&mut self) -> Run {
        self.update();
        self.take_run()
    }
}
