//! What classes with layer norms and plain projections write alike: a layer behind a checkpoint, heads
//! out of a projection, an MLP of two linear layers.

use crate::scenario::Activation;
use crate::tape::{Block, Tape, Tensor};
use crate::wire::scenario::Checkpointing;

use super::Style;
use super::affine::Affine;
use super::llama::activate;

impl Style {
    /// Runs a layer; where layers are checkpointed the frame keeps its input and what else it gets, in
    /// the order in which they die.
    pub(super) fn run_layer<'a>(
        self,
        tape: &mut Tape,
        (index, hidden_states): (u32, &Tensor),
        arguments: impl IntoIterator<Item = &'a Tensor>,
        layer: impl FnOnce(&mut Tape) -> Tensor,
    ) -> Tensor {
        if self.checkpointing == Checkpointing::None {
            return layer(tape);
        }
        let input = tape.share(hidden_states);
        let arguments = arguments.into_iter().map(|tensor| tape.share(tensor)).collect();
        tape.begin_checkpoint(index, input, arguments);
        let output = layer(tape);
        tape.end_checkpoint();
        output
    }
}

/// `projected.view(…, heads, head_dim).transpose(1, 2)`.
pub(super) fn per_head(tape: &mut Tape, projected: Tensor, head_dim: u64) -> Tensor {
    let per_head = tape.split_last(&projected, head_dim);
    tape.release(projected);
    let heads = tape.transpose(&per_head);
    tape.release(per_head);
    heads
}

/// Query, key and value as heads, each by a linear layer of its own, in this order.
pub(super) fn projected_heads(
    tape: &mut Tape,
    modules: [(&'static str, Affine); 3],
    hidden_states: &Tensor,
    head_dim: u64,
) -> [Tensor; 3] {
    modules.map(|(module, linear)| {
        tape.enter(Block::Attention, module);
        let projected = linear.apply(tape, hidden_states);
        per_head(tape, projected, head_dim)
    })
}

/// `second(activation(first(x)))`; modules go by the names of `first`, activation and `second`.
pub(super) fn mlp(
    tape: &mut Tape,
    x: &Tensor,
    linears: [Affine; 2],
    activation: Activation,
    modules: [&'static str; 3],
) -> Tensor {
    tape.enter(Block::Mlp, modules[0]);
    let mut hidden_states = linears[0].apply(tape, x);
    tape.enter(Block::Mlp, modules[1]);
    let activated = activate(tape, &hidden_states, activation);
    tape.release(core::mem::replace(&mut hidden_states, activated));
    tape.enter(Block::Mlp, modules[2]);
    let projected = linears[1].apply(tape, &hidden_states);
    tape.release(core::mem::replace(&mut hidden_states, projected));
    hidden_states
}
