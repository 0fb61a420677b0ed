//! Autograd's engine: runs nodes in the framework's order and moves gradients along the edges.
//!
//! Nodes run from a ready queue, the latest recorded first; a parameter's accumulation runs before
//! any node (its sequence number is the highest). Gradients that meet at a node are added in place
//! when the first one is held by nobody else and is no view, else into a new tensor.
//!
//! Source: `Engine::evaluate_function`, `ReadyQueue` (`torch/csrc/autograd/engine.cpp`),
//! `InputBuffer::add` and `can_accumulate_inplace` (`input_buffer.cpp`), `AccumulateGrad`
//! (`functions/accumulate_grad.h`), PyTorch 2.11.

use core::ops::Range;
use std::collections::BinaryHeap;

use crate::clock::{HostWork, Issue, Pointwise};
use crate::primitives::{Gradients, pointwise, run_backward};
use crate::tape::{
    Backward, Edge, Edges, FrameId, Megatron, NodeId, ParamId, Part, Prim, SavedSlot, Scope,
    Source, StorageId, Tape, Tensor,
};
use crate::tensor::{Layout, Shape};
use crate::wire::timeline::Category;

/// A model whose checkpointed layers can be run again.
pub trait Recompute {
    /// Runs a layer's forward again on its kept input and arguments.
    fn recompute(&self, tape: &mut Tape, layer: u32, input: &Tensor, arguments: &[Tensor]);

    /// Runs a part again on what a reentrant checkpoint kept, recording a graph of its own.
    fn rerun(&self, tape: &mut Tape, part: Part, kept: &[StorageId]) -> Rerun {
        let _ = (tape, kept);
        unreachable!("the model has no reentrant checkpoint over {part:?}")
    }
}

/// A part that ran again.
#[derive(Debug)]
pub struct Rerun {
    /// Its result.
    pub output: Tensor,
    /// Its inputs as leaves, in the order of the checkpoint's arguments.
    pub leaves: [Option<Tensor>; 3],
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
    run(tape, root, model);
    tape.hook(|hooks, tape| hooks.after_backward(tape));
    tape.release(ones);
    tape.issued_by(Issue::Python);
    tape.set_scope(Scope::default());
}

/// Runs backward through one of several graphs, whose nodes are these, from its output and the
/// gradient of it.
///
/// # Panics
///
/// When the output was not made by a node: a bug of a block.
pub fn backward_graph(
    tape: &mut Tape,
    output: Source,
    gradient: Tensor,
    nodes: Range<usize>,
    model: &dyn Recompute,
) {
    let Source::Node { id: root, .. } = output else { panic!("the output was made by a node") };
    tape.set_grad_enabled(false);
    tape.expect_gradients(nodes);
    tape.node_mut(root).grads[0] = Some(gradient);
    run(tape, root, model);
    tape.issued_by(Issue::Python);
    tape.set_scope(Scope::default());
}

fn run(tape: &mut Tape, root: NodeId, model: &dyn Recompute) {
    let mut ready = BinaryHeap::from([root]);
    while let Some(id) = ready.pop() {
        tape.hook(|hooks, tape| hooks.before_node(tape, id));
        recompute_if_needed(tape, id, model);
        let edges = tape.node(id).edges;
        let (parts, more) = match &mut tape.node_mut(id).more {
            Some(more) => (core::mem::take(&mut more.parts), core::mem::take(&mut more.edges)),
            None => (Vec::new(), Vec::new()),
        };
        if !parts.is_empty() {
            hand_out_parts(tape, id, &parts, &mut ready);
            continue;
        }
        let gradients = match tape.node(id).backward {
            Backward::Megatron(Megatron::Checkpoint(part)) => reenter(tape, id, part, model),
            _ => run_backward(tape, id),
        };
        let [first, ..] = &gradients;
        let views: Vec<Tensor> = match first {
            Some(first) => more.iter().map(|_| tape.share(first)).collect(),
            None => Vec::new(),
        };
        for (edge, gradient) in edges.into_iter().zip(gradients) {
            if let Some(gradient) = gradient {
                deliver(tape, edge, gradient, &mut ready);
            }
        }
        for (edge, view) in more.into_iter().zip(views) {
            deliver(tape, edge, Tensor { view: true, ..view }, &mut ready);
        }
        accumulate_parameters(tape, in_turn(tape.node(id).prim, edges));
    }
}

/// A reentrant checkpoint: its forward again on detached inputs, backward through that graph at once,
/// and what reached the inputs.
///
/// Source: `CheckpointFunction.backward` in megatron-core 0.19.2 (`tensor_parallel/random.py`).
fn reenter(tape: &mut Tape, id: NodeId, part: Part, model: &dyn Recompute) -> Gradients {
    let node = tape.node_mut(id);
    node.done = true;
    let gradient = node.grads[0].take().expect("a node runs when its gradient has arrived");
    let kept: Vec<StorageId> = node.saved[..usize::from(node.n_saved)]
        .iter()
        .filter_map(|slot| match slot {
            SavedSlot::Held(storage) => Some(*storage),
            _ => None,
        })
        .collect();
    let scope = Scope { backward: true, ..node.scope };
    tape.issued_by(Issue::Python);
    tape.set_scope(scope);
    tape.set_grad_enabled(true);
    let first = tape.n_nodes();
    let Rerun { output, leaves } = model.rerun(tape, part, &kept);
    let nodes = first..tape.n_nodes();
    let shared = tape.share(&gradient);
    backward_graph(tape, output.source, shared, nodes, model);
    tape.set_scope(scope);
    let [a, b, c] = leaves.map(|leaf| {
        let leaf = leaf?;
        let gradient = tape.take_gradient(&leaf);
        tape.release(leaf);
        gradient
    });
    tape.release(output);
    tape.forget_graph(first);
    tape.release(gradient);
    for storage in kept {
        tape.release_storage(storage);
    }
    [a, b, c, None]
}

/// A node that joined tensors gives each the view of its part of the gradient.
fn hand_out_parts(
    tape: &mut Tape,
    id: NodeId,
    parts: &[(Edge, Shape)],
    ready: &mut BinaryHeap<NodeId>,
) {
    let [gradient, ..] = run_backward(tape, id);
    let gradient = gradient.expect("joined tensors need a gradient");
    let wanted = parts.iter().filter(|(edge, _)| edge.wanted());
    let views: Vec<(Edge, Tensor)> = wanted
        .map(|&(edge, shape)| {
            let part = tape.part(&gradient, shape);
            let whole = shape == gradient.shape;
            let layout = match gradient.layout {
                layout if whole => layout,
                Layout::ChannelsLast => Layout::SomeChannels,
                _ => Layout::Strided,
            };
            (edge, Tensor { layout, ..part })
        })
        .collect();
    tape.release(gradient);
    for (edge, view) in views {
        deliver(tape, edge, view, ready);
        if let Edge::Param { .. } = edge {
            accumulate_parameters(tape, [edge, Edge::None, Edge::None, Edge::None]);
        }
    }
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
            if tape.node(id).grads.len() <= slot {
                let node = tape.node_mut(id);
                node.more().grads.push(gradient);
                node.pending -= 1;
                if node.pending == 0 {
                    ready.push(id);
                }
                return;
            }
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
                // `AccumulateGrad` takes the gradient over, or a copy in the leaf's memory order.
                node.done = true;
                let kept = node.grads[slot].take().expect("the gradient has just arrived");
                let kept = in_order(tape, kept);
                tape.node_mut(id).grads[slot] = Some(kept);
                tape.host(HostWork::Accumulate);
            } else {
                ready.push(id);
            }
        }
    }
}

/// The gradient in row-major order: `clone_obey_contract` (`accumulate_grad.h`) copies what is not.
fn in_order(tape: &mut Tape, gradient: Tensor) -> Tensor {
    if gradient.layout == Layout::Contiguous {
        return gradient;
    }
    let copy = tape.empty(gradient.shape, gradient.dtype, Prim::Accumulate);
    let work = pointwise(Pointwise::Strided, gradient.dtype, 2 * gradient.bytes());
    tape.run(Prim::Accumulate, work);
    tape.release(gradient);
    copy
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
    let layout = old.layout.of_result();
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
        if param.main_grad {
            // The hook of `DistributedDataParallel`: `main_grad.add_(grad)`, then `grad = None`.
            let bytes = 2 * 4 * gradient.shape.elements() + gradient.bytes();
            tape.run(Prim::Accumulate, pointwise(Pointwise::Binary, gradient.dtype, bytes));
            tape.release(gradient);
        } else if param.grad_slot().is_some() {
            let work = pointwise(Pointwise::Binary, gradient.dtype, 3 * gradient.bytes());
            tape.run(Prim::Accumulate, work);
            tape.release(gradient);
        } else {
            let gradient = in_layout_of(tape, id, gradient);
            let param = tape.param_mut(id);
            *param.grad_slot() = Some(gradient.storage);
            tape.host(HostWork::Accumulate);
            tape.own(gradient.storage, id, Category::Gradients);
        }
        tape.hook(|hooks, tape| hooks.after_gradient(tape, id));
    }
}

/// A first gradient in its parameter's memory order: the gradient itself, or a copy.
///
/// Source: `AccumulateGrad::accumulateGrad` and `obeys_layout_contract`
/// (`torch/csrc/autograd/utils/grad_layout_contract.h`): dimensions of size 1 do not count.
fn in_layout_of(tape: &mut Tape, id: ParamId, gradient: Tensor) -> Tensor {
    let layout = tape.param(id).layout;
    let is_image = |layout| layout == Layout::ChannelsLast;
    let differs = is_image(layout) != is_image(gradient.layout);
    if !differs || gradient.shape.order_is_ambiguous() {
        return gradient;
    }
    let copy = tape.empty(gradient.shape, gradient.dtype, Prim::Accumulate);
    tape.run(Prim::Accumulate, pointwise(Pointwise::Strided, copy.dtype, 2 * copy.bytes()));
    tape.release(gradient);
    Tensor { layout, ..copy }
}
