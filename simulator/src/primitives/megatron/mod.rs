//! Megatron-core's own autograd functions: what each allocates, keeps, and allocates in backward.
//!
//! Source: megatron-core 0.19.2 (`megatron/core`), without Transformer Engine and Apex: the "local"
//! layer specification. Functions marked `@jit_fuser` are compiled by `torch.compile`; what their
//! kernels allocate follows `torch/_inductor` of PyTorch 2.11.

mod activation;
mod attention;
mod compiled;
mod cross_entropy;
mod engine;
mod exchange;
mod linear;
mod routing;

use crate::clock::{Issue, Pointwise, Reduce};
use crate::tape::{MAX_INPUTS, Megatron, NodeId, Prim, SavedSlot, Scope, Tape, Tensor};
use crate::tensor::{Layout, Shape};

use super::backward::{Gradients, one, reduce_to};
use super::work::{pointwise, reduction};

/// A node that runs, taken apart.
struct Running {
    grads: [Option<Tensor>; 3],
    saved: Vec<SavedSlot>,
    wanted: [bool; MAX_INPUTS],
    dtype: crate::tensor::DType,
}

impl Running {
    fn grad(&self) -> &Tensor {
        self.grads[0].as_ref().expect("a node runs when its gradient has arrived")
    }

    /// Lets go of a saved tensor before the function ends: compiled code frees its arguments as soon
    /// as the last kernel has read them.
    fn free_saved(&mut self, tape: &mut Tape, slot: usize) {
        if let SavedSlot::Held(storage) =
            core::mem::replace(&mut self.saved[slot], SavedSlot::Empty)
        {
            tape.release_storage(storage);
        }
    }

    /// Incoming gradients go, then what was saved (`evaluate_function`, `release_variables`).
    fn end(self, tape: &mut Tape) {
        for grad in self.grads.into_iter().flatten() {
            tape.release(grad);
        }
        for slot in self.saved {
            if let SavedSlot::Held(storage) = slot {
                tape.release_storage(storage);
            }
        }
    }
}

/// Runs a node's backward and releases what it kept.
pub(super) fn run(tape: &mut Tape, id: NodeId, rule: Megatron) -> Gradients {
    let node = tape.node_mut(id);
    node.done = true;
    let more = node.more.take().map(|more| more.grads).unwrap_or_default();
    let mut running = Running {
        grads: core::mem::take(&mut node.grads),
        saved: node.saved[..usize::from(node.n_saved)].to_vec(),
        wanted: node.edges.map(crate::tape::Edge::wanted),
        dtype: node.dtype,
    };
    let scope = Scope { backward: true, ..node.scope };
    tape.set_scope(scope);
    tape.issued_by(Issue::Node);
    let outputs = match rule {
        Megatron::Seen { input, layout } => one(seen(tape, running.grad(), input, layout)),
        Megatron::Exchange { input } | Megatron::SplitRows { input } => {
            one(tape.exchanged(running.grad(), input))
        }
        Megatron::Linear(product) => {
            tape.parallel_gradients(running.grad(), &product, running.wanted)
        }
        Megatron::NormLinear(product) => tape.norm_linear_gradients(&mut running, &product),
        Megatron::EngineAttention(size) => tape.engine_attention_gradients(running.grad(), &size),
        Megatron::GradientInPlace { input } => one(tape.gradient_in_place(&running, input)),
        Megatron::SquaredRelu { input } => {
            one(tape.elementwise_of(input, running.dtype, Prim::Relu))
        }
        Megatron::BiasDropoutAdd(shape) => tape.bias_dropout_add_gradients(&mut running, shape),
        Megatron::Activation { input, bias } => {
            tape.activation_gradients(running.grad(), input, bias, running.wanted)
        }
        Megatron::Weighted { input } => tape.weighted_gradients(running.grad(), input),
        Megatron::Baddbmm(size) => tape.baddbmm_gradients(running.grad(), &size),
        Megatron::RepeatInterleave { input, .. } => one(sum_heads(tape, running.grad(), input)),
        Megatron::Embedding { rows, columns, indices } => {
            one(tape.vocab_gradient(running.grad(), [rows, columns], indices))
        }
        Megatron::RmsNorm => tape.rms_norm_gradients(running.grad(), running.wanted),
        Megatron::CrossEntropy { rows, input } => {
            let SavedSlot::Held(softmax) = running.saved[0] else {
                unreachable!("the function saves its softmax")
            };
            one(tape.cross_entropy_gradient(rows, input, softmax, running.dtype))
        }
        Megatron::MeanAll { input } => one(tape.elementwise_of(input, running.dtype, Prim::Div)),
        Megatron::CatRows => one(seen_part(tape, running.grad())),
        Megatron::Checkpoint(_) => unreachable!("the engine runs checkpoints"),
    };
    running.end(tape);
    for gradient in more {
        tape.release(gradient);
    }
    outputs
}

/// The gradient of a part: a view.
fn seen_part(tape: &mut Tape, grad: &Tensor) -> Tensor {
    let part = tape.share(grad);
    Tensor { view: true, ..part }
}

/// The gradient under another shape.
fn seen(tape: &mut Tape, grad: &Tensor, input: Shape, layout: Layout) -> Tensor {
    let seen = tape.share(grad);
    let view = seen.view || grad.shape != input;
    Tensor { shape: input, layout, view, ..seen }
}

fn sum_heads(tape: &mut Tape, grad: &Tensor, input: Shape) -> Tensor {
    let out = tape.empty(input, grad.dtype, Prim::Sum);
    let bytes = grad.bytes() + out.bytes();
    tape.run(Prim::Sum, reduction(Reduce::First, &grad.shape, grad.dtype, bytes));
    out
}

/// A gradient reduced to a bias: a new tensor, then the reduction's scratch (`validate_outputs`).
fn bias_of(tape: &mut Tape, grad: &Tensor) -> Tensor {
    let shared = tape.share(grad);
    reduce_to(tape, shared, Shape::new([grad.shape.last()]))
}

impl Tape {
    /// A new tensor made element by element.
    pub(super) fn elementwise_of(
        &mut self,
        shape: Shape,
        dtype: crate::tensor::DType,
        prim: Prim,
    ) -> Tensor {
        let out = self.empty(shape, dtype, prim);
        self.run(prim, pointwise(Pointwise::Unary, dtype, 2 * out.bytes()));
        out
    }

    /// `x.view(shape)`, `x.permute(…)` and the like: the same memory, seen otherwise; backward sees
    /// the gradient with the memory order `back`.
    pub fn seen(&mut self, x: &Tensor, shape: Shape, layout: Layout, back: Layout) -> Tensor {
        let rule = Megatron::Seen { input: x.shape, layout: back };
        let node = self.megatron_node(Prim::View, rule, &[x]);
        self.host(crate::clock::HostWork::View);
        let out = self.share(x);
        let out = Tensor { shape, layout, view: true, ..out };
        self.with_node(out, node)
    }

    /// `.contiguous()` of memory in another order: a copy; backward sees the gradient with the
    /// memory order `back`.
    pub fn made_contiguous(&mut self, x: &Tensor, shape: Shape, back: Layout) -> Tensor {
        let rule = Megatron::Seen { input: x.shape, layout: back };
        let node = self.megatron_node(Prim::Copy, rule, &[x]);
        let out = self.copy(x, shape);
        self.with_node(out, node)
    }

    /// `x *= number` and `x /= number`: in place, a new tensor in backward.
    pub fn scaled_in_place(&mut self, x: Tensor, prim: Prim) -> Tensor {
        let rule = crate::tape::Backward::Unary;
        let node = self.records(&[&x]).then(|| self.begin_node(prim, rule, &[&x]));
        self.run(prim, pointwise(Pointwise::Unary, x.dtype, 2 * x.bytes()));
        self.with_node(x, node)
    }

    /// `x.reshape(shape)` of a slice, which is a copy; backward reshapes the gradient.
    pub fn copied(&mut self, x: &Tensor, shape: Shape) -> Tensor {
        let rule = crate::tape::Backward::Reshape { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Copy, rule, &[x]));
        let out = self.copy(x, shape);
        self.with_node(out, node)
    }

    /// `tensor_parallel.checkpoint(function, False, *kept)`: runs without recording, and keeps the
    /// arguments; `inputs` are those of them that get gradients.
    pub fn checkpoint(
        &mut self,
        part: crate::tape::Part,
        kept: &[&Tensor],
        inputs: &[&Tensor],
        function: impl FnOnce(&mut Self) -> Tensor,
    ) -> Tensor {
        let node = self.megatron_node(Prim::View, Megatron::Checkpoint(part), inputs);
        let recording = node.is_some();
        if recording {
            self.set_grad_enabled(false);
            self.begin_chain();
        }
        let out = function(self);
        if recording {
            self.end_chain();
            self.set_grad_enabled(true);
        }
        let node = node.map(|mut node| {
            for tensor in kept {
                self.save(&mut node, tensor);
            }
            node
        });
        self.with_node(out, node)
    }

    /// Begins a node of Megatron-core's when one of its inputs needs a gradient.
    fn megatron_node(
        &self,
        prim: Prim,
        rule: Megatron,
        inputs: &[&Tensor],
    ) -> Option<crate::tape::Node> {
        let rule = crate::tape::Backward::Megatron(rule);
        self.records(inputs).then(|| self.begin_node(prim, rule, inputs))
    }
}
