//! Autograd's engine: runs nodes in the framework's order and moves gradients along the edges.
//!
//! Nodes run from a ready queue, the latest recorded first; a parameter's accumulation runs before
//! any node (its sequence number is the highest). Gradients that meet at a node are added in place
//! when the first one is held by nobody else and is no view, else into a new tensor.
//!
//! Source: `Engine::evaluate_function`, `ReadyQueue` (`torch/csrc/autograd/engine.cpp`),
//! `InputBuffer::add` and `can_accumulate_inplace` (`input_buffer.cpp`), `AccumulateGrad`
//! (`functions/accumulate_grad.h`), PyTorch 2.11.

use std::collections::BinaryHeap;

use crate::clock::{HostWork, Issue, Pointwise};
use crate::primitives::{pointwise, run_backward};
use crate::tape::{
    Backward, Edge, Edges, FrameId, NodeId, ParamId, Prim, SavedSlot, Scope, Source, Tape, Tensor,
};
use crate::tensor::Shape;
use crate::wire::timeline::Category;

/// A model whose checkpointed layers can be run again.
pub trait Recompute {
    /// Runs a layer's forward again on its kept input and arguments.
    fn recompute(&self, tape: &mut Tape, layer: u32, input: &Tensor, arguments: &[Tensor]);
}

/// Runs the backward pass from a loss.
///
/// # Panics
///
/// When the loss was not made by a node, or a gradient never arrives: a bug of a block or rule.
pub fn backward(tape: &mut Tape, loss: &Tensor, model: &dyn Recompute) {
    let Source::Node { id: root, .. } = loss.source else {
        panic!("the loss was made by a node");
    };
    tape.set_grad_enabled(false);
    let mut scope = tape.node(root).scope;
    scope.backward = true;
    tape.set_scope(scope);
    // The gradient of the loss itself is held by the caller until the pass ends.
    let ones = tape.empty(Shape::scalar(), loss.dtype, Prim::NllLoss);
    tape.run(Prim::NllLoss, pointwise(Pointwise::Unary, loss.dtype, 4));
    let first = tape.share(&ones);
    tape.node_mut(root).grads[0] = Some(first);

    let mut ready = BinaryHeap::from([root]);
    while let Some(id) = ready.pop() {
        tape.hook(|hooks, tape| hooks.before_node(tape, id));
        recompute_if_needed(tape, id, model);
        let edges = tape.node(id).edges;
        let gradients = run_backward(tape, id);
        for (edge, gradient) in edges.into_iter().zip(gradients) {
            if let Some(gradient) = gradient {
                deliver(tape, edge, gradient, &mut ready);
            }
        }
        accumulate_parameters(tape, in_turn(tape.node(id).prim, edges));
    }
    tape.hook(|hooks, tape| hooks.after_backward(tape));
    tape.release(ones);
    tape.issued_by(Issue::Python);
    tape.set_scope(Scope::default());
}

/// The first node of a checkpointed layer that needs a saved tensor runs the layer again.
fn recompute_if_needed(tape: &mut Tape, id: NodeId, model: &dyn Recompute) {
    let node = tape.node(id);
    let Some(SavedSlot::Deferred { frame, .. }) = node.saved.first().copied() else { return };
    if tape.frame(frame).recomputed {
        return;
    }
    run_frame(tape, frame, model);
}

fn run_frame(tape: &mut Tape, id: FrameId, model: &dyn Recompute) {
    let frame = tape.frame_mut(id);
    let (layer, autocast) = (frame.layer, frame.autocast);
    let input = frame.input.take().expect("the frame keeps its input");
    let arguments = core::mem::take(&mut frame.arguments);
    let scope = tape.scope();
    tape.issued_by(Issue::Python);
    tape.set_autocast(autocast);
    tape.begin_recompute(id);
    model.recompute(tape, layer, &input, &arguments);
    tape.end_recompute(id);
    tape.end_autocast();
    tape.set_scope(scope);
    let frame = tape.frame_mut(id);
    frame.input = Some(input);
    frame.arguments = arguments;
}

fn deliver(tape: &mut Tape, edge: Edge, gradient: Tensor, ready: &mut BinaryHeap<NodeId>) {
    match edge {
        Edge::None => tape.release(gradient),
        Edge::Param { id, view } => {
            arrive(tape, id, Tensor { view: gradient.view || view, ..gradient });
        }
        Edge::Node { id, output, view } => {
            let gradient = Tensor { view: gradient.view || view, ..gradient };
            let slot = usize::from(output);
            let sum = match tape.node_mut(id).grads[slot].take() {
                None => gradient,
                Some(old) => accumulate(tape, old, gradient),
            };
            let node = tape.node_mut(id);
            node.grads[slot] = Some(sum);
            node.pending -= 1;
            if 0 < node.pending {
                return;
            }
            if node.backward == Backward::Leaf {
                // `AccumulateGrad` takes the gradient over.
                node.done = true;
                tape.host(HostWork::Accumulate);
            } else {
                ready.push(id);
            }
        }
    }
}

/// The sum of two gradients that meet.
fn accumulate(tape: &mut Tape, old: Tensor, new: Tensor) -> Tensor {
    let work = pointwise(Pointwise::Binary, old.dtype, 3 * old.bytes());
    if tape.references(old.storage) == 1 && !old.view {
        tape.run(Prim::Accumulate, work);
        tape.release(new);
        return old;
    }
    let sum = tape.empty(old.shape, old.dtype.promote(new.dtype), Prim::Accumulate);
    tape.run(Prim::Accumulate, work);
    let layout = old.layout;
    tape.release(old);
    tape.release(new);
    Tensor { layout, ..sum }
}

/// A gradient reaches a parameter's buffer.
fn arrive(tape: &mut Tape, id: ParamId, gradient: Tensor) {
    let sum = match tape.param_mut(id).arriving.take() {
        None => gradient,
        Some(old) => accumulate(tape, old, gradient),
    };
    let param = tape.param_mut(id);
    param.arriving = Some(sum);
    param.pending -= 1;
}

/// The edges as their accumulations run: `addmm`'s first argument is the bias.
const fn in_turn(prim: Prim, edges: Edges) -> Edges {
    match (prim, edges) {
        (Prim::Addmm, [input, weight, bias, other]) => [bias, input, weight, other],
        _ => edges,
    }
}

/// Accumulates into the parameters whose gradients are complete.
///
/// The first gradient is taken over; later ones are added in place.
fn accumulate_parameters(tape: &mut Tape, edges: Edges) {
    for edge in edges {
        let Edge::Param { id, .. } = edge else { continue };
        let param = tape.param_mut(id);
        if 0 < param.pending {
            continue;
        }
        let Some(gradient) = param.arriving.take() else { continue };
        if param.grad_slot().is_some() {
            let work = pointwise(Pointwise::Binary, gradient.dtype, 3 * gradient.bytes());
            tape.run(Prim::Accumulate, work);
            tape.release(gradient);
        } else {
            *param.grad_slot() = Some(gradient.storage);
            tape.host(HostWork::Accumulate);
            tape.own(gradient.storage, id, Category::Gradients);
        }
        tape.hook(|hooks, tape| hooks.after_gradient(tape, id));
    }
}
