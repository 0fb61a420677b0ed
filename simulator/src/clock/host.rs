//! How long the host takes to issue an operation.
//!
//! cost = first(class, issue) + (kernels − 1) · launch
//!
//! The numbers are host µs measured with PyTorch 2.11 on the H200 machine (`micro-h200.json`,
//! `host_us`: 37 operations on tiny tensors, forward and backward, in chains of 60; 2026-11), taken
//! apart by rules rather than entry by entry: the smallest entry with no kernel (`view`) gives what
//! a Python call and an autograd node cost by themselves; a module adds what `linear` as a module
//! takes beyond `F.linear`; a node of several operations is the node plus its operations. The test
//! below puts the entries together again. Other hosts: [`HostClock::scaled`]; single-thread speed
//! is what counts, so the ratio of single-thread benchmark scores is a fair factor.

use super::work::{HostWork, Index, Issue, Pointwise, Reduce, Update, Work, WorkClass};
use crate::units::Nanos;

/// Host costs of one class, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    /// Called from Python, autograd node recorded.
    python: u32,
    /// First operation of an autograd node in backward.
    node: u32,
    /// Called from C++ inside an operation or node.
    inner: u32,
}

/// Python call with no kernel (`view`, forward).
const CALL_NS: u32 = 3_100;
/// Autograd node with no kernel (`view`, backward).
const NODE_NS: u32 = 9_200;
/// `torch.nn.Module.__call__`: `linear_module_nobias` − `F.linear`.
const MODULE_NS: u32 = 5_100;
/// A further kernel launch inside one operation: `zeros` − `empty`, less the call of `fill_`.
const LAUNCH_NS: u32 = 4_500;
/// From the launch call to the kernel's start on an idle device, ns (a launch takes 4 to 5 µs:
/// stackoverflow.com/q/53970187, 2018-12).
pub(super) const LATENCY_NS: u64 = 4_500;
/// What the host pays beyond waiting when it synchronises, ns (general: an event's round trip).
const SYNCHRONIZE_NS: u32 = 10_000;
/// For what has no entry: a pointwise operation's cost.
const UNKNOWN: Cost = Cost { python: 11_900, node: 18_700, inner: 9_500 };

/// Host µs for each operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostClock {
    /// Factor in 1/65,536.
    scale: u64,
}

impl Default for HostClock {
    fn default() -> Self {
        Self::scaled(1.0)
    }
}

impl HostClock {
    /// A host that takes `factor` times as long as the measured one for everything; factors are
    /// kept to 1/65,536, from 0 up to 2¹⁶.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float-to-integer cast saturates, and the clamp keeps the range"
    )]
    pub const fn scaled(factor: f64) -> Self {
        Self { scale: (factor.clamp(0.0, 65_536.0) * 65_536.0) as u64 }
    }

    /// Time from the start of issuing `work` to the start of issuing the next, without waiting.
    #[inline]
    pub fn issue(self, work: &Work) -> Nanos {
        self.scaled_nanos(first_ns(work) + LAUNCH_NS * u32::from(work.kernels.saturating_sub(1)))
    }

    /// Time from the start of issuing `work` to its first kernel's launch.
    #[inline]
    pub(super) fn first_launch(self, work: &Work) -> Nanos {
        self.scaled_nanos(first_ns(work))
    }

    #[inline]
    fn scaled_nanos(self, ns: u32) -> Nanos {
        Nanos::new((u64::from(ns) * self.scale) >> 16)
    }
}

/// Cost of the operation with its first kernel.
fn first_ns(work: &Work) -> u32 {
    if let WorkClass::Host(kind) = work.class {
        return host_work_ns(kind, work.issue);
    }
    if work.class == WorkClass::Synchronize {
        return SYNCHRONIZE_NS;
    }
    let cost = class_cost(&work.class);
    match work.issue {
        Issue::Python => cost.python,
        Issue::Node => cost.node,
        Issue::Inner => cost.inner,
    }
}

/// cuDNN's plan: each convolution of a network has other sizes, which are hashed and looked up.
///
/// Forward and backward of `resnet50-fp32-b32` and `resnet152-fp32-b32`, in which the host is ahead of
/// the device: 69 µs more for a convolution with its batch norm than the table below says (two calls),
/// 110 µs more backward (three calls) (2026-12).
const PLAN_NS: u32 = 35_000;

/// Cost of host work without a kernel.
const fn host_work_ns(kind: HostWork, issue: Issue) -> u32 {
    match (kind, issue) {
        (HostWork::View | HostWork::Accumulate, Issue::Inner) => 1_000,
        (HostWork::View, Issue::Python) => CALL_NS,
        (HostWork::View, Issue::Node) => NODE_NS,
        (HostWork::Empty, Issue::Python) => 6_100,
        (HostWork::Empty, _) => 3_000,
        (HostWork::Module, _) => MODULE_NS,
        (HostWork::Plan, _) => PLAN_NS,
        (HostWork::Accumulate, _) => 4_000,
        (HostWork::Entry, _) => 20_000,
    }
}

/// The table, ns. The name in the comment is the measured entry that a row comes from.
fn class_cost(class: &WorkClass) -> Cost {
    let row = |python, node, inner| Cost { python, node, inner };
    match class {
        // F.linear, matmul: forward; (linear backward − node − one addition) / 2.
        WorkClass::Matmul { .. } => row(31_800, 33_700, 24_500),
        // sdpa − views; backward − views − two additions.
        WorkClass::Attention { backward: false, .. } => row(19_200, 25_300, 16_100),
        WorkClass::Attention { backward: true, .. } => row(58_000, 64_000, 54_800),
        // conv2d_module − module.
        WorkClass::Convolution { .. } => row(27_700, 33_800, 24_600),
        WorkClass::Elementwise(kind) => pointwise_cost(*kind),
        WorkClass::Reduction { kind, .. } => reduce_cost(*kind),
        WorkClass::Index(kind) => index_cost(*kind),
        WorkClass::Optimizer { kind, tensors } => update_cost(*kind, *tensors),
        WorkClass::Transfer(_) => row(12_000, 18_000, 9_000),
        WorkClass::Host(_) | WorkClass::Synchronize => UNKNOWN,
    }
}

fn pointwise_cost(kind: Pointwise) -> Cost {
    let row = |python, node, inner| Cost { python, node, inner };
    match kind {
        // cast_roundtrip / 2.
        Pointwise::Widen | Pointwise::Narrow => row(16_600, 15_500, 6_300),
        // dropout.
        Pointwise::Dropout => row(24_200, 21_200, 12_000),
        // add, mul, silu, gelu, relu, pow, neg, cat.
        _ => UNKNOWN,
    }
}

fn reduce_cost(kind: Reduce) -> Cost {
    let row = |python, node, inner| Cost { python, node, inner };
    match kind {
        // mean_keepdim_mul − mul.
        Reduce::Last | Reduce::First | Reduce::All | Reduce::Pool => row(19_000, 21_200, 12_000),
        // layer_norm_module − module; F.rms_norm.
        Reduce::LayerNorm => row(17_800, 23_900, 14_700),
        Reduce::RmsNorm => row(22_400, 28_500, 19_300),
        // backward − the additions of the weight's (and bias's) gradient, one launch of two.
        Reduce::LayerNormBackward => row(24_000, 27_700, 18_500),
        Reduce::RmsNormBackward => row(30_000, 33_500, 24_300),
        // softmax.
        Reduce::Softmax | Reduce::LogSoftmax => row(14_700, 20_800, 11_600),
        Reduce::SoftmaxBackward | Reduce::LogSoftmaxBackward => row(23_800, 29_900, 20_700),
        // batch_norm_module − module − the addition to num_batches_tracked.
        Reduce::BatchNorm | Reduce::BatchNormBackward => row(44_000, 35_000, 20_000),
    }
}

fn index_cost(kind: Index) -> Cost {
    let row = |python, node, inner| Cost { python, node, inner };
    match kind {
        // embedding_module − module, index_select_add − add.
        Index::Gather => row(15_500, 20_700, 11_500),
        // index_select's backward: zeros and index_add.
        Index::Scatter => row(18_000, 22_000, 12_000),
        Index::EmbeddingBackward => row(60_000, 60_000, 50_000),
        Index::Sort => row(40_000, 45_000, 35_000),
    }
}

/// A list operation's cost for each tensor: parsing the list, checks, outputs, kernel arguments.
///
/// Median over the optimizer phases of 12 single-GPU captures in which the host was ahead of the
/// device (5 with SGD and momentum, 3 list operations; 7 with `AdamW`, 9; host marks with the
/// allocator's recorder on; 2026-11): 3.9 µs, half of them between 3.7 and 4.4.
const LIST_TENSOR_NS: u32 = 3_900;

/// Optimizers: the loop pays an operation for each tensor; a list operation pays once, and for each
/// tensor. The fused update takes five lists where the others take two or three.
fn update_cost(kind: Update, tensors: u32) -> Cost {
    let list = match kind {
        Update::Foreach => 12_000 + LIST_TENSOR_NS * tensors,
        Update::Fused => 20_000 + 2 * LIST_TENSOR_NS * tensors,
        Update::Single => 9_500 * tensors.max(1),
    };
    Cost { python: list, node: list, inner: list }
}
