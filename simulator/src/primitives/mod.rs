//! One rule per primitive, as the framework executes it.
//!
//! A rule says what the forward allocates, what it keeps for backward, what its backward allocates
//! and in which order, and how much work it is. Sources are PyTorch 2.11's
//! `tools/autograd/derivatives.yaml` (formulas; gradients are computed in the alphabetical order
//! of the arguments' names, as the code generator emits them) and the native kernels named beside
//! each rule. Broadcast gradients are reduced after the rule, in argument order
//! (`validate_outputs` in `torch/csrc/autograd/engine.cpp`).

mod adapter;
mod attention;
mod backward;
mod batch_norm;
mod conv;
mod conv2d;
mod cub;
mod cudnn;
mod elementwise;
mod embedding;
mod flash;
mod fused;
mod gradients;
mod grouped;
mod image;
mod loss;
mod matmul;
mod megatron;
mod normalize;
mod quantised;
mod reduce;
mod reshape;
mod routing;
mod sharded;
mod work;

pub use attention::{KernelQuestion, MaskKind, SdpaInputs, choose_kernel};
pub use backward::{Gradients, run_backward};
pub use conv2d::Places;
pub(crate) use cub::scan_scratch;
pub use loss::FusedLossShape;
pub use quantised::quantised_bytes;
pub use reduce::full_reduction;
pub use work::{pointwise, product, update};
