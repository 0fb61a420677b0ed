//! The answer: verdict, peaks, breakdown, times, and the formula behind each number. Version 1.

use serde::{Deserialize, Serialize};

use super::note::Note;
use super::scenario::Scenario;
use super::timeline::{Category, PhaseKind};
use crate::units::Bytes;

/// Version of the report format.
pub const REPORT_VERSION: u64 = 1;

/// The answer to a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Report {
    /// Version of this format.
    pub version: u64,
    /// Which program answered.
    pub engine: Engine,
    /// The question, with defaults filled in.
    pub scenario: Scenario,
    /// Facts of the model.
    pub model: ModelFacts,
    /// Facts of the GPU.
    pub gpu: GpuFacts,
    /// Whether it fits.
    pub verdict: Verdict,
    /// The first step, in which the optimizer creates its states.
    pub first: StepReport,
    /// Every later step.
    pub steady: StepReport,
    /// Every pipeline stage, in order; empty without a pipeline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankReport>,
    /// Figures with their formulas.
    pub figures: Vec<Figure>,
    /// What a reader should know about the scenario.
    #[serde(default)]
    pub notes: Vec<Note>,
}

impl Report {
    /// The numbers of a step.
    pub const fn step(&self, step: StepKind) -> &StepReport {
        match step {
            StepKind::First => &self.first,
            StepKind::Steady => &self.steady,
        }
    }
}

/// The program that answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Engine {
    /// Version of the program.
    pub version: String,
    /// Number of the prediction rules; it grows when any prediction changes.
    pub predictions: u64,
}

/// Facts of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelFacts {
    /// Name for people.
    pub name: String,
    /// The class that runs.
    pub class: String,
    /// Parameters, a tied weight counted once; an adapter's are among them.
    pub parameters: u64,
    /// Those of them that get a gradient. Absent in older reports: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trainable_parameters: Option<u64>,
    /// Those that the simulated rank keeps, where it does not keep all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank_parameters: Option<u64>,
    /// Bytes of non-parameter buffers.
    pub buffer_bytes: Bytes,
    /// Repeated layers.
    pub layers: u64,
}

/// Facts of the GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GpuFacts {
    /// Catalog id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Memory as the driver shows it.
    pub capacity_bytes: Bytes,
    /// What was never measured or verified, in words for people; empty when all was.
    pub unverified: Vec<String>,
}

/// Whether it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The peak and its whole band stay below the limit.
    Fits,
    /// The peak and its whole band lie above the limit.
    DoesNotFit,
    /// The limit lies within the band.
    TooClose,
}

/// The verdict with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Verdict {
    /// The answer.
    pub outcome: Outcome,
    /// Bytes the device shows at the peak: reserved + outside the pool + already in use.
    pub device_peak_bytes: Bytes,
    /// Bytes there are.
    pub limit_bytes: Bytes,
    /// Limit minus peak; negative when it does not fit.
    pub margin_bytes: i64,
    /// Half-width of the error band of the peak.
    pub band_bytes: Bytes,
    /// The step that sets the peak: `first` or `steady`.
    pub step: StepKind,
    /// The phase that sets the peak of live bytes.
    pub phase: PhaseKind,
    /// What the limit is: the card, or the process's cap.
    pub limited_by: LimitedBy,
    /// The pipeline stage that it is about: the worst. Absent without a pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<u64>,
    /// If the replay ran out of memory: the request that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_memory: Option<OutOfMemory>,
}

/// The highest point of one pipeline stage's rank. Ranks of one stage are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RankReport {
    /// The stage, counted from 0.
    pub stage: u64,
    /// Whether it fits: of the shown stage and of the worst by replay of the allocator; of others from
    /// the allocated bytes, which are at most those reserved.
    pub outcome: Outcome,
    /// Highest sum of live requests, each rounded to 512 B; the categories sum to it.
    pub peak_allocated_bytes: Bytes,
    /// The step that it is in.
    pub step: StepKind,
    /// The phase that it is in.
    pub phase: PhaseKind,
    /// The phase's micro-batch, from 0.
    pub micro_batch: u32,
    /// Forwards whose backward has not ended, counted with the model chunks.
    pub in_flight: u64,
    /// What got there, such as `mlp linear_fc1 · linear`; of layers that are alike, none is named.
    pub what: String,
    /// Bytes by category there, largest first.
    pub categories: Vec<CategoryBytes>,
    /// Highest bytes in each forward, backward and update of that step, in the order of the stage's
    /// schedule; of a long schedule, of several together.
    pub course_bytes: Vec<Bytes>,
}

/// What sets the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The card's memory.
    Card,
    /// `hardware.process_cap_bytes`.
    ProcessCap,
}

/// A request that the allocator could not serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutOfMemory {
    /// In which step.
    pub step: StepKind,
    /// In which phase.
    pub phase: PhaseKind,
    /// Event of that step's timeline.
    pub event: u32,
    /// Requested bytes.
    pub requested_bytes: Bytes,
    /// What asked, such as `model.layers.3.mlp · mul`.
    pub what: String,
}

/// Which step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The first step.
    First,
    /// Every later step.
    Steady,
}

/// One step's numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepReport {
    /// Requested bytes alive when it starts.
    pub base_bytes: Bytes,
    /// Blocks handed out when it starts (rounded, whole blocks).
    pub base_allocated_bytes: Bytes,
    /// Highest sum of live requested bytes.
    pub peak_requested_bytes: Bytes,
    /// Highest sum of blocks handed out.
    pub peak_allocated_bytes: Bytes,
    /// Most bytes held from the driver, this process's history up to this step included.
    pub peak_reserved_bytes: Bytes,
    /// Event at which the live requested bytes peak.
    pub peak_event: u32,
    /// When that is, ns since the step's start.
    pub peak_ns: u64,
    /// The phase it falls in.
    pub peak_phase: PhaseKind,
    /// Bytes by category at that event; they sum to the bytes reserved at it plus those outside the pool.
    pub categories: Vec<CategoryBytes>,
    /// Finer: bytes by category, block and primitive at that event, largest first.
    pub breakdown: Vec<BreakdownRow>,
    /// Phases with their peaks.
    pub phases: Vec<PhaseReport>,
    /// Allocations in the step.
    pub allocations: u64,
    /// Times.
    pub time: TimeReport,
}

impl StepReport {
    /// Bytes of a category at the peak; none where it has no row.
    pub fn category(&self, category: Category) -> Bytes {
        let row = self.categories.iter().find(|row| row.category == category);
        row.map_or(Bytes::new(0), |row| row.bytes)
    }
}

/// Bytes of one category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CategoryBytes {
    /// Which.
    pub category: Category,
    /// How many.
    pub bytes: Bytes,
}

/// Bytes at the peak by category, block and primitive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BreakdownRow {
    /// Category.
    pub category: Category,
    /// Block, such as `mlp`.
    pub block: String,
    /// Primitive, such as `linear`.
    pub primitive: String,
    /// Bytes of all such tensors.
    pub bytes: Bytes,
    /// How many tensors.
    pub tensors: u64,
}

/// One phase's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PhaseReport {
    /// Which.
    pub kind: PhaseKind,
    /// Which micro-batch, from 0.
    pub micro_batch: u32,
    /// Live requested bytes at its start.
    pub start_bytes: Bytes,
    /// Live requested bytes at its end.
    pub end_bytes: Bytes,
    /// Highest live requested bytes in it.
    pub peak_bytes: Bytes,
    /// Its length, ns.
    pub length_ns: u64,
}

/// Where times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TimeMode {
    /// Datasheet rates and general efficiencies.
    Nominal,
    /// Rates measured on this GPU model.
    Measured,
}

/// One step's times, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TimeReport {
    /// Whole step.
    pub step_s: f64,
    /// Forward and loss.
    pub forward_s: f64,
    /// Backward.
    pub backward_s: f64,
    /// Clipping, optimizer and `zero_grad`.
    pub optimizer_s: f64,
    /// Time the device waits for the host.
    pub device_idle_s: f64,
    /// Whether the host's launch rate sets the step time.
    pub host_bound: bool,
    /// Tokens per second.
    pub tokens_per_s: f64,
    /// Model FLOPs of the step ((4·parameters + 2·trainable)·tokens + causal attention), per second, over the peak rate.
    pub mfu: Option<f64>,
    /// Where the rates come from.
    pub mode: TimeMode,
}

/// A number with the formula behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Figure {
    /// Stable id, such as `weights`, `peak_reserved`, `log_softmax`.
    pub id: String,
    /// The value in its unit.
    pub value: f64,
    /// Unit: `B`, `s`, `FLOP`, `1`.
    pub unit: String,
    /// The formula in symbols.
    pub formula: String,
    /// The formula with the values put in.
    pub substituted: String,
    /// Where the rule comes from.
    pub source: String,
}
