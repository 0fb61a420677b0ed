//! The optimizer in the backward pass: one for each parameter, stepped by a hook as soon as the gradient
//! is there, which then goes.
//!
//! Source: PyTorch's tutorial "How to save memory by fusing the optimizer step into the backward pass"
//! (2.11): `register_post_accumulate_grad_hook` with `step()` and `zero_grad()`.

use crate::tape::{Block, Hooks, ParamId, Scope, Tape};
use crate::wire::scenario::Optimizer;

/// The hooks of all parameters.
#[derive(Debug)]
pub(in crate::program) struct InBackward(pub(in crate::program) Optimizer);

impl Hooks for InBackward {
    fn after_gradient(&mut self, tape: &mut Tape, param: ParamId) {
        let scope = tape.scope();
        let layer = tape.param(param).layer;
        tape.set_scope(Scope { block: Block::Optimizer, module: "step", layer, backward: false });
        super::step(tape, &self.0, &[param]);
        super::zero_grad(tape, &[param], true);
        tape.set_scope(scope);
    }

    /// There is nothing left to do after backward.
    fn update(&mut self, _tape: &mut Tape, _optimizer: &Optimizer) -> bool {
        true
    }
}
