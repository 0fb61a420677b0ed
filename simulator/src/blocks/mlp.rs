//! The gated MLP of Llama and the classes written like it.

use crate::scenario::Activation;
use crate::tape::{Block, Tape, Tensor};
use crate::tensor::DType;

use super::llama::{Linear, activate};

/// `LlamaMLP`: `down_proj(act_fn(gate_proj(x)) * up_proj(x))`.
#[derive(Debug)]
pub(super) struct Mlp {
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl Mlp {
    /// Registers its parameters under a path such as `model.layers.3.mlp`.
    pub(super) fn register(
        tape: &mut Tape,
        path: &str,
        [hidden, intermediate]: [u64; 2],
        bias: bool,
        dtype: DType,
    ) -> Self {
        let mut linear = |module: &str, outer: u64, inner: u64| {
            Linear::register(tape, &format!("{path}.{module}"), [outer, inner], bias, dtype)
        };
        let gate = linear("gate_proj", intermediate, hidden);
        let up = linear("up_proj", intermediate, hidden);
        let down = linear("down_proj", hidden, intermediate);
        Self { gate, up, down }
    }

    pub(super) fn forward(&self, tape: &mut Tape, x: &Tensor, activation: Activation) -> Tensor {
        tape.enter(Block::Mlp, "gate_proj");
        let gate = self.gate.forward(tape, x);
        tape.enter(Block::Mlp, "act_fn");
        let activated = activate(tape, &gate, activation);
        tape.release(gate);
        tape.enter(Block::Mlp, "up_proj");
        let up = self.up.forward(tape, x);
        tape.enter(Block::Mlp, "act_fn * up_proj");
        let product = tape.mul(&activated, &up);
        tape.release(activated);
        tape.release(up);
        tape.enter(Block::Mlp, "down_proj");
        let down = self.down.forward(tape, &product);
        tape.release(product);
        down
    }
}
