//! The backward rules: what each node's gradients allocate, in the framework's order.

use crate::clock::Issue;
use crate::tape::{
    Backward, Edges, MAX_INPUTS, NodeId, Prim, Product, SavedSlot, Scope, Tape, Tensor,
};
use crate::tensor::{DType, Layout, Shape};

use super::gradients::{
    add, bmm, cat, cat_tokens, copy_slices, div, expand, flat_rows, fused_loss, heads_last,
    layer_norm, linear, mean, mul, nll_loss, repeat_kv, reshape, rsqrt, sdpa, slice, softmax,
    split, square, subtract, transpose, where_or_zero,
};
use super::quantised::quantised_linear;

/// Gradients of a node's inputs, in argument order.
pub type Gradients = [Option<Tensor>; MAX_INPUTS];

pub(super) const NONE: Gradients = [None, None, None, None];

/// What a rule knows of its node.
#[derive(Clone, Copy)]
pub(super) struct Context {
    pub prim: Prim,
    pub edges: Edges,
    pub dtype: DType,
}

/// Runs a node's backward and releases what it kept.
///
/// Order (`call_function` and `evaluate_function` in `torch/csrc/autograd/engine.cpp`): the rule makes
/// the gradients of the inputs; recomputed tensors go with the rule's locals; the incoming gradients
/// go; saved tensors go last (`release_variables`).
pub fn run_backward(tape: &mut Tape, id: NodeId) -> Gradients {
    let node = tape.node_mut(id);
    if let Backward::Megatron(rule) = node.backward {
        return super::megatron::run(tape, id, rule);
    }
    node.done = true;
    let mut grads = core::mem::take(&mut node.grads);
    let rule = node.backward;
    let context = Context { prim: node.prim, edges: node.edges, dtype: node.dtype };
    let (mut saved, n_saved) = (node.saved, usize::from(node.n_saved));
    let scope = Scope { backward: true, ..node.scope };
    tape.set_scope(scope);
    tape.issued_by(Issue::Node);

    if matches!(rule, Backward::Linear(_)) {
        grads[0] = grads[0].take().map(|grad| flat_rows(tape, grad));
    }
    tape.unpack(&mut saved[..n_saved]);
    let raw = apply(tape, rule, context, &grads, &saved[..n_saved]);
    release_recomputed(tape, &saved[..n_saved]);
    let outputs = validate(tape, rule, raw);
    let last_of_frame = finished_frame(tape, &saved[..n_saved]);
    for grad in grads.into_iter().flatten() {
        tape.release(grad);
    }
    for slot in &saved[..n_saved] {
        if let SavedSlot::Held(storage) = *slot {
            tape.release_storage(storage);
        }
    }
    for tensor in last_of_frame {
        tape.release(tensor);
    }
    outputs
}

fn release_recomputed(tape: &mut Tape, saved: &[SavedSlot]) {
    // C++ locals die in the reverse order of their declaration.
    for slot in saved.iter().rev() {
        let SavedSlot::Deferred { frame, slot } = *slot else { continue };
        let frame = tape.frame_mut(frame);
        frame.n_used += 1;
        if let Some(storage) = frame.slots[slot as usize].take() {
            tape.release_storage(storage);
        }
    }
}

/// What a checkpoint kept, when its last saved tensor has been used: nothing holds its frame any more.
fn finished_frame(tape: &mut Tape, saved: &[SavedSlot]) -> Vec<Tensor> {
    let Some(SavedSlot::Deferred { frame, .. }) = saved.first().copied() else {
        return Vec::new();
    };
    let frame = tape.frame_mut(frame);
    if frame.n_used < frame.n_slots {
        return Vec::new();
    }
    let mut kept = core::mem::take(&mut frame.arguments);
    kept.extend(frame.input.take());
    kept
}

fn apply(
    tape: &mut Tape,
    rule: Backward,
    context: Context,
    grads: &[Option<Tensor>],
    saved: &[SavedSlot],
) -> Gradients {
    if let Backward::Split { input, parts } = rule {
        return split(tape, input, parts, grads, context);
    }
    let grad = grads[0].as_ref().expect("a node runs when its gradient has arrived");
    match rule {
        Backward::Pass => one(tape.share(grad)),
        Backward::Add { .. } => add(tape, grad, context.edges),
        Backward::Sub { .. } => subtract(tape, grad, context.edges),
        Backward::Mul { dtypes, .. } => mul(tape, grad, dtypes, context.edges),
        Backward::AllReduce => one(tape.all_reduce_gradient(grad)),
        Backward::GatherColumns { input } => one(tape.gradient_columns(grad, input)),
        Backward::Unary => one(tape.elementwise(context.prim, &[grad], context.dtype)),
        Backward::Square => square(tape, grad, context),
        Backward::Rsqrt => rsqrt(tape, grad, context),
        Backward::Mean { input } => mean(tape, grad, input, context),
        Backward::Cast { to } => one(tape.elementwise(Prim::Copy, &[grad], to)),
        Backward::Where => one(where_or_zero(tape, grad)),
        Backward::Linear(product) => linear(tape, grad, &product, context),
        Backward::Bmm(size) => bmm(tape, grad, &size, context.edges),
        Backward::Sdpa(attention) => sdpa(tape, &attention, grad.dtype, context.edges),
        Backward::Embedding { vocab, hidden, indices, expanded, .. } => {
            let rows = (grad.layout == Layout::Strided).then(|| tape.copy(grad, grad.shape));
            let table = tape.embedding_gradient([vocab, hidden], indices, expanded, context.dtype);
            if let Some(rows) = rows {
                tape.release(rows);
            }
            one(table)
        }
        Backward::Patches(conv) => {
            let [weight, bias] = tape.patches_gradients(&conv, grad);
            [None, Some(weight), Some(bias), None]
        }
        Backward::Div { dtypes, .. } => div(tape, grad, dtypes, context.edges),
        Backward::Grouped(size) => tape.grouped_gradients(grad, &size, context.edges),
        Backward::LayerNorm { rows, columns, layout } => {
            layer_norm(tape, grad, [rows, columns], layout, context)
        }
        Backward::DropoutOfView => one(tape.dropout_of_view_gradient(grad)),
        Backward::Dropout => one(tape.elementwise(Prim::Dropout, &[grad], grad.dtype)),
        Backward::Softmax { to } => softmax(tape, grad, to, Prim::Softmax),
        Backward::LogSoftmax { to } => softmax(tape, grad, to, Prim::LogSoftmax),
        Backward::NllLoss { input } => nll_loss(tape, input, context),
        Backward::FusedLoss { inputs } => fused_loss(tape, inputs, context, saved),
        Backward::Split { .. } | Backward::Leaf | Backward::Megatron(_) => {
            unreachable!("handled elsewhere")
        }
        others => apply_to_places(tape, others, context, grad, saved),
    }
}

/// The rules of what takes, moves or joins parts of a tensor.
fn apply_to_places(
    tape: &mut Tape,
    rule: Backward,
    context: Context,
    grad: &Tensor,
    saved: &[SavedSlot],
) -> Gradients {
    match rule {
        Backward::Reshape { input } => reshape(tape, grad, input),
        Backward::Transpose => transpose(tape, grad),
        Backward::HeadsFirst { input } => one(heads_last(tape, grad, input)),
        Backward::Unpad { input } => one(tape.copy(grad, input)),
        Backward::QuantisedLinear { product, base } => quantised_linear(tape, grad, product, base),
        Backward::Slice { input } => slice(tape, grad, input),
        Backward::Cat { sizes, .. } => cat(tape, grad, sizes, context),
        Backward::CopySlices { base, source, dtype } => {
            copy_slices(tape, grad, [base, source], dtype, context.edges)
        }
        Backward::RepeatKv { input, groups } => repeat_kv(tape, grad, input, groups),
        Backward::SumToInput { input } => {
            let shared = tape.share(grad);
            one(reduce_to(tape, shared, input))
        }
        Backward::CatTokens { inputs, dtypes } => {
            cat_tokens(tape, grad, inputs, dtypes, context.edges)
        }
        Backward::Index { input, rows } => one(tape.index_gradient(grad, input, rows)),
        Backward::Scatter { input } => one(tape.scatter_gradient(grad, input, context.prim)),
        Backward::Expand { input, .. } => one(expand(tape, grad, input)),
        of_images => apply_to_images(tape, of_images, context, grad, saved),
    }
}

/// The rules of image networks.
fn apply_to_images(
    tape: &mut Tape,
    rule: Backward,
    context: Context,
    grad: &Tensor,
    saved: &[SavedSlot],
) -> Gradients {
    match rule {
        Backward::Threshold { layout } => {
            let out = tape.elementwise(context.prim, &[grad], context.dtype);
            one(Tensor { layout, ..out })
        }
        Backward::Conv2d(conv) => tape.conv2d_gradients(&conv, grad, saved, context.edges),
        Backward::BatchNorm { input, layout, weight } => {
            tape.batch_norm_gradients(grad, (input, layout), weight, context)
        }
        Backward::Pool { input, layout } => one(tape.pool_gradient(grad, input, layout)),
        Backward::ImageMean { input } => one(tape.image_mean_gradient(grad, input)),
        Backward::AsStrided => one(tape.as_strided_gradient(grad)),
        Backward::Permute { input, to_last } => one(tape.permuted(grad, input, !to_last)),
        Backward::CatChannels => one(tape.share(grad)),
        _ => unreachable!("every other rule is applied elsewhere"),
    }
}

pub(super) fn one(grad: Tensor) -> Gradients {
    [Some(grad), None, None, None]
}

/// Gradients of broadcast or promoted inputs are brought to their inputs' shape and dtype, in
/// argument order (`validate_outputs`).
fn validate(tape: &mut Tape, rule: Backward, mut raw: Gradients) -> Gradients {
    match rule {
        Backward::Add { inputs, dtypes }
        | Backward::Mul { inputs, dtypes }
        | Backward::Div { inputs, dtypes } => {
            for (i, output) in raw.iter_mut().enumerate().take(2) {
                *output = output.take().map(|grad| fit(tape, grad, inputs[i], dtypes[i]));
            }
        }
        Backward::Sub { dtypes } | Backward::Cat { dtypes, .. } => {
            for (output, dtype) in raw.iter_mut().zip(dtypes) {
                *output = output.take().map(|grad| in_dtype(tape, grad, dtype));
            }
        }
        Backward::Expand { dtype, .. } => {
            raw[0] = raw[0].take().map(|grad| in_dtype(tape, grad, dtype));
        }
        Backward::Linear(Product { outer, bias: true, .. }) => {
            raw[2] = raw[2].take().map(|grad| {
                let dtype = grad.dtype;
                if grad.shape.rows() == 1 && 1 < grad.shape.sizes().len() {
                    // `sum_to` sums a leading dimension of one as well.
                    let sum = tape.sum_leading(&grad, Shape::new([outer]), dtype);
                    tape.release(grad);
                    return sum;
                }
                fit(tape, grad, Shape::new([outer]), dtype)
            });
        }
        _ => {}
    }
    raw
}

fn fit(tape: &mut Tape, grad: Tensor, shape: Shape, dtype: DType) -> Tensor {
    let reduced = reduce_to(tape, grad, shape);
    in_dtype(tape, reduced, dtype)
}

pub(super) fn in_dtype(tape: &mut Tape, grad: Tensor, dtype: DType) -> Tensor {
    if grad.dtype == dtype {
        return grad;
    }
    let cast = tape.elementwise(Prim::Copy, &[&grad], dtype);
    tape.release(grad);
    cast
}

pub(super) fn reduce_to(tape: &mut Tape, grad: Tensor, shape: Shape) -> Tensor {
    if grad.shape.elements() == shape.elements() {
        return Tensor { shape, ..grad };
    }
    let dtype = grad.dtype;
    let is_image = grad.shape.sizes().len() == 4
        && 3 <= shape.sizes().len()
        && shape.rows() != grad.shape.rows();
    let reduced = if is_image && shape.last() == 1 {
        tape.sum_image(&grad, shape, dtype)
    } else if shape.last() == 1 && grad.shape.last() != 1 {
        tape.sum_last(&grad, dtype)
    } else {
        tape.sum_leading(&grad, shape, dtype)
    };
    tape.release(grad);
    reduced
}
