//! One step as it runs: every allocation and free in the order of the host, as columns.
//!
//! Columns instead of rows, so that the page takes them over as typed arrays. An *event* is one
//! allocation or free; a *tensor* is what stands between the two (one storage). Tensors that live
//! before the step (weights, optimizer states) are born at [`BEFORE`]; those that outlive it are
//! freed at [`NEVER`].

use serde::{Deserialize, Serialize};

/// `Tensors::born` of a tensor that exists when the step starts.
pub const BEFORE: u32 = u32::MAX;
/// `Tensors::freed` of a tensor that exists when the step ends.
pub const NEVER: u32 = u32::MAX;
/// `Tensors::layer` of a tensor outside the repeated layers.
pub const NO_LAYER: u32 = u32::MAX;

/// What a tensor is for. The order is the stacking order, from the bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "borsh", borsh(use_discriminant = true))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Category {
    /// Context, kernels, libraries: outside the caching allocator.
    OutsidePool = 0,
    /// Parameters and buffers.
    Weights = 1,
    /// What the optimizer keeps between steps.
    OptimizerStates = 2,
    /// Gradients of parameters.
    Gradients = 3,
    /// Inputs of the step: token ids, labels.
    Inputs = 4,
    /// Kept by forward for backward.
    Activations = 5,
    /// Logits, log-probabilities and their gradients.
    Logits = 6,
    /// Everything that dies within its own computation: gradients of activations, casts, optimizer scratch.
    Temporaries = 7,
    /// Reserved by the allocator and not handed out, rounding included.
    Slack = 8,
}

impl Category {
    /// All categories in stacking order.
    pub const ALL: [Self; 9] = [
        Self::OutsidePool,
        Self::Weights,
        Self::OptimizerStates,
        Self::Gradients,
        Self::Inputs,
        Self::Activations,
        Self::Logits,
        Self::Temporaries,
        Self::Slack,
    ];

    /// The word in files and in the page's tokens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::OutsidePool => "outside_pool",
            Self::Weights => "weights",
            Self::OptimizerStates => "optimizer_states",
            Self::Gradients => "gradients",
            Self::Inputs => "inputs",
            Self::Activations => "activations",
            Self::Logits => "logits",
            Self::Temporaries => "temporaries",
            Self::Slack => "slack",
        }
    }
}

/// A phase of the step; with accumulation forward, loss and backward repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PhaseKind {
    /// Model construction (history only).
    Build,
    /// The model's forward pass up to the logits.
    Forward,
    /// From the logits to the loss.
    Loss,
    /// The backward pass.
    Backward,
    /// Gradient clipping.
    Clip,
    /// The optimizer's update.
    Optimizer,
    /// `zero_grad`.
    ZeroGrad,
}

impl PhaseKind {
    /// The word in files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Forward => "forward",
            Self::Loss => "loss",
            Self::Backward => "backward",
            Self::Clip => "clip",
            Self::Optimizer => "optimizer",
            Self::ZeroGrad => "zero_grad",
        }
    }
}

/// A stretch of the step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "borsh", derive(borsh::BorshSerialize, borsh::BorshDeserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Phase {
    /// What happens in it.
    pub kind: PhaseKind,
    /// Which micro-batch, from 0; 0 where it has no meaning.
    pub micro_batch: u32,
    /// Its first event.
    pub first_event: u32,
    /// One past its last event.
    pub end_event: u32,
    /// When the host enters it, ns since the step's start.
    pub start_ns: u64,
    /// When the device has finished it, ns since the step's start.
    pub end_ns: u64,
}

/// Columns over tensors. All columns have the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Tensors {
    /// Requested bytes.
    pub bytes: Vec<u64>,
    /// Event that allocated it, or [`BEFORE`].
    pub born: Vec<u32>,
    /// Event that freed it, or [`NEVER`].
    pub freed: Vec<u32>,
    /// `Category` as its number.
    pub category: Vec<u8>,
    /// Name, as an index into `Timeline::labels` (`hidden_states`, `model.layers.3.mlp.up_proj.weight`).
    pub name: Vec<u32>,
    /// Primitive that made it, as an index into `Timeline::labels` (`linear`, `mul`, `sdpa.backward`).
    pub primitive: Vec<u32>,
    /// Block it belongs to, as an index into `Timeline::labels` (`self_attn`, `mlp`, `lm_head`).
    pub block: Vec<u32>,
    /// Layer it belongs to, or [`NO_LAYER`].
    pub layer: Vec<u32>,
}

impl Tensors {
    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Columns over events, in the host's order. All columns have the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Events {
    /// When the host issues it, ns since the step's start.
    pub time_ns: Vec<u64>,
    /// Which tensor, as an index into `Timeline::tensors`.
    pub tensor: Vec<u32>,
    /// 1 for an allocation, 0 for a free.
    pub is_alloc: Vec<u8>,
    /// Bytes the allocator holds from the driver after the event.
    pub reserved: Vec<u64>,
    /// Bytes of blocks handed out after the event (rounded, whole blocks).
    pub allocated: Vec<u64>,
}

impl Events {
    /// Number of events.
    pub fn len(&self) -> usize {
        self.time_ns.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.time_ns.is_empty()
    }
}

/// Work on the device: one kernel or a few that one primitive launches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Work {
    /// Primitive, as an index into `Timeline::labels`.
    pub primitive: Vec<u32>,
    /// Block, as an index into `Timeline::labels`.
    pub block: Vec<u32>,
    /// Layer, or [`NO_LAYER`].
    pub layer: Vec<u32>,
    /// When the host starts to issue it, ns.
    pub issued_ns: Vec<u64>,
    /// When the device starts it, ns.
    pub start_ns: Vec<u64>,
    /// When the device has finished it, ns.
    pub end_ns: Vec<u64>,
}

/// One step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Timeline {
    /// Strings that the columns refer to.
    pub labels: Vec<String>,
    /// Tensors; those born before the step come first.
    pub tensors: Tensors,
    /// Allocations and frees.
    pub events: Events,
    /// Phases in order; together they cover all events.
    pub phases: Vec<Phase>,
    /// Work on the device.
    pub work: Work,
    /// Requested bytes alive when the step starts.
    pub base_bytes: u64,
    /// Bytes of blocks handed out when the step starts (rounded, whole blocks).
    #[serde(default)]
    pub base_allocated: u64,
    /// Bytes reserved when the step starts.
    pub base_reserved: u64,
    /// Length of the step, ns.
    pub step_ns: u64,
}
