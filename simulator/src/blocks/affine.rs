//! Modules with a weight and a bias: linear layers and layer norms.

use crate::tape::{ParamId, Tape, Tensor};
use crate::tensor::DType;

use super::parameter;

/// A linear layer or a layer norm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Affine {
    pub(super) weight: ParamId,
    pub(super) bias: ParamId,
}

impl Affine {
    /// `nn.LayerNorm(size)`.
    pub(super) fn norm(tape: &mut Tape, name: &str, size: u64, dtype: DType) -> Self {
        Self::register(tape, name, [size], size, dtype)
    }

    /// `nn.Linear(inner, outer)`.
    pub(super) fn linear(
        tape: &mut Tape,
        name: &str,
        [inner, outer]: [u64; 2],
        dtype: DType,
    ) -> Self {
        Self::register(tape, name, [outer, inner], outer, dtype)
    }

    fn register<const N: usize>(
        tape: &mut Tape,
        name: &str,
        sizes: [u64; N],
        outer: u64,
        dtype: DType,
    ) -> Self {
        let weight = parameter(tape, format!("{name}.weight"), sizes, dtype);
        let bias = parameter(tape, format!("{name}.bias"), [outer], dtype);
        Self { weight, bias }
    }

    /// The linear layer of `x`.
    pub(super) fn apply(self, tape: &mut Tape, x: &Tensor) -> Tensor {
        tape.linear(x, self.weight, Some(self.bias))
    }

    /// The layer norm of `x`.
    pub(super) fn normed(self, tape: &mut Tape, x: &Tensor) -> Tensor {
        tape.layer_norm(x, self.weight, self.bias)
    }
}
