//! The rules of single nodes: what each one's gradients allocate.

use crate::clock::{Pass, Pointwise, Reduce};
use crate::tape::{Attention, Batched, Edges, Library, Prim, Product, SavedSlot, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};
use crate::wire::timeline::Category;

use super::backward::{Context, Gradients, NONE, one};
use super::work::{pointwise, product as matmul, reduction};

pub(super) fn add(tape: &mut Tape, grad: &Tensor, edges: Edges) -> Gradients {
    let mut outputs = NONE;
    for i in [1, 0] {
        if edges[i].wanted() {
            outputs[i] = Some(tape.share(grad));
        }
    }
    outputs
}

/// `-grad` for what was subtracted, then the gradient itself.
pub(super) fn subtract(tape: &mut Tape, grad: &Tensor, edges: Edges) -> Gradients {
    let mut outputs = NONE;
    if edges[1].wanted() {
        outputs[1] = Some(tape.elementwise(Prim::Neg, &[grad], grad.dtype));
    }
    if edges[0].wanted() {
        outputs[0] = Some(tape.share(grad));
    }
    outputs
}

/// A copy of the gradient for the base, and of its slice for the source; the base's slice becomes zeros.
///
/// Source: `CopySlices::apply_impl` (`torch/csrc/autograd/functions/tensor.cpp`) around `CopyBackwards`.
pub(super) fn copy_slices(
    tape: &mut Tape,
    grad: &Tensor,
    [base, source]: [Shape; 2],
    dtype: DType,
    edges: Edges,
) -> Gradients {
    let strided = |tape: &mut Tape, out: &Tensor| {
        tape.run(Prim::Copy, pointwise(Pointwise::Strided, grad.dtype, 2 * out.bytes()));
    };
    let result = tape.empty(base, grad.dtype, Prim::Copy);
    strided(tape, &result);
    let slice = tape.empty(source, grad.dtype, Prim::Copy);
    strided(tape, &slice);
    let zeros = edges[0].wanted().then(|| tape.empty(source, grad.dtype, Prim::Copy));
    let mut outputs = NONE;
    outputs[1] = edges[1].wanted().then(|| {
        if slice.dtype == dtype {
            tape.share(&slice)
        } else {
            tape.elementwise(Prim::Copy, &[&slice], dtype)
        }
    });
    tape.release(slice);
    if let Some(zeros) = zeros {
        strided(tape, &zeros);
        tape.release(zeros);
        outputs[0] = Some(result);
    } else {
        tape.release(result);
    }
    outputs
}

pub(super) fn mul(tape: &mut Tape, grad: &Tensor, dtypes: [DType; 2], edges: Edges) -> Gradients {
    let mut outputs = NONE;
    // `other` comes before `self`.
    for i in [1, 0] {
        if edges[i].wanted() {
            let dtype = grad.dtype.promote(dtypes[1 - i]);
            outputs[i] = Some(tape.elementwise(Prim::Mul, &[grad], dtype));
        }
    }
    outputs
}

/// `-grad * ((self / other) / other)` for the divisor, then `grad / other`.
pub(super) fn div(tape: &mut Tape, grad: &Tensor, dtypes: [DType; 2], edges: Edges) -> Gradients {
    let mut outputs = NONE;
    let wide = dtypes[0].promote(dtypes[1]);
    if edges[1].wanted() {
        // C++ makes the right operand of the product first.
        let quotient = tape.elementwise(Prim::Div, &[grad], wide);
        let twice = tape.elementwise(Prim::Div, &[grad], wide);
        let negated = tape.elementwise(Prim::Neg, &[grad], grad.dtype);
        outputs[1] = Some(tape.elementwise(Prim::Mul, &[&negated, &twice], wide));
        for tensor in [negated, twice, quotient] {
            tape.release(tensor);
        }
    }
    if edges[0].wanted() {
        outputs[0] = Some(tape.elementwise(Prim::Div, &[grad], wide));
    }
    outputs
}

/// The gradient seen with the summed dimension again.
pub(super) fn expand(tape: &mut Tape, grad: &Tensor, input: Shape) -> Tensor {
    let same = grad.shape.elements() == input.elements();
    let grad = tape.share(grad);
    let layout = if same { grad.layout } else { Layout::Strided };
    Tensor { shape: input, layout, view: true, ..grad }
}

/// `grad * (2 * self.pow(1))`: the power, its double, their product.
pub(super) fn square(tape: &mut Tape, grad: &Tensor, context: Context) -> Gradients {
    let power = tape.elementwise(Prim::Pow, &[grad], context.dtype);
    let scaled = tape.elementwise(Prim::Mul, &[&power], context.dtype);
    let result = tape.elementwise(Prim::Mul, &[grad], context.dtype);
    tape.release(scaled);
    tape.release(power);
    one(result)
}

/// `-0.5 * grad * result.pow(3)`.
pub(super) fn rsqrt(tape: &mut Tape, grad: &Tensor, context: Context) -> Gradients {
    let scaled = tape.elementwise(Prim::Mul, &[grad], context.dtype);
    let power = tape.elementwise(Prim::Pow, &[grad], context.dtype);
    let result = tape.elementwise(Prim::Mul, &[grad], context.dtype);
    tape.release(power);
    tape.release(scaled);
    one(result)
}

pub(super) fn mean(tape: &mut Tape, grad: &Tensor, input: Shape, context: Context) -> Gradients {
    let result = tape.empty(input, context.dtype, Prim::Div);
    tape.run(Prim::Div, pointwise(Pointwise::Unary, context.dtype, result.bytes() + grad.bytes()));
    one(result)
}

/// `reshape`: a view, or a copy of what is not contiguous.
pub(super) fn reshape(tape: &mut Tape, grad: &Tensor, input: Shape) -> Gradients {
    one(tape.reshaped(grad, input))
}

pub(super) fn transpose(tape: &mut Tape, grad: &Tensor) -> Gradients {
    let &[a, b, c, d] = grad.shape.sizes() else {
        unreachable!("transposed tensors have four dimensions")
    };
    let view = tape.view(grad, Shape::new([a, c, b, d]));
    one(Tensor { layout: grad.layout.transposed(), ..view })
}

/// The gradient seen with its heads last again: not adjacent in memory where there are several.
pub(super) fn heads_last(tape: &mut Tape, grad: &Tensor, input: Shape) -> Tensor {
    let layout = if 1 < input.last() { Layout::Strided } else { grad.layout };
    Tensor { layout, ..tape.view(grad, input) }
}

/// `where(condition, grad, 0)`: the zero is a tensor.
pub(super) fn where_or_zero(tape: &mut Tape, grad: &Tensor) -> Tensor {
    let zero = tape.empty(Shape::scalar(), grad.dtype, Prim::Mask);
    let result = tape.elementwise(Prim::Mask, &[grad], grad.dtype);
    tape.release(zero);
    result
}

/// `slice_backward`: zeros of the input's shape, the gradient copied in.
pub(super) fn slice(tape: &mut Tape, grad: &Tensor, input: Shape) -> Gradients {
    let result = tape.empty(input, grad.dtype, Prim::Slice);
    tape.run(
        Prim::Slice,
        pointwise(Pointwise::Strided, grad.dtype, result.bytes() + 2 * grad.bytes()),
    );
    one(result)
}

/// Views of the gradient's parts.
pub(super) fn cat(tape: &mut Tape, grad: &Tensor, sizes: [u64; 2], context: Context) -> Gradients {
    let mut outputs = NONE;
    for ((output, edge), size) in outputs.iter_mut().zip(context.edges).zip(sizes) {
        if edge.wanted() {
            let mut part = tape.share(grad);
            part.shape = grad.shape.with_last(size);
            part.view = true;
            *output = Some(part);
        }
    }
    outputs
}

/// Views of the gradient's parts; what has another dtype is cast (`validate_outputs`).
pub(super) fn cat_tokens(
    tape: &mut Tape,
    grad: &Tensor,
    inputs: [Shape; 2],
    dtypes: [DType; 2],
    edges: Edges,
) -> Gradients {
    let mut outputs = NONE;
    for i in [0, 1] {
        if !edges[i].wanted() {
            continue;
        }
        let mut part = tape.part(grad, inputs[i]);
        if part.dtype != dtypes[i] {
            let cast = tape.elementwise(Prim::Copy, &[&part], dtypes[i]);
            tape.release(core::mem::replace(&mut part, cast));
        }
        outputs[i] = Some(part);
    }
    outputs
}

/// `cat` of the parts' gradients, in their common memory order.
pub(super) fn split(
    tape: &mut Tape,
    input: Shape,
    parts: u8,
    grads: &[Option<Tensor>],
    context: Context,
) -> Gradients {
    debug_assert!(grads.iter().flatten().count() == usize::from(parts), "all parts are used");
    let result = tape.empty(input, context.dtype, Prim::Split);
    tape.run(Prim::Split, pointwise(Pointwise::Strided, context.dtype, 2 * result.bytes()));
    one(result)
}

/// The gradient as rows: a linear layer sees sequences as one matrix (`_flatten_nd_linear`), and the
/// gradient of a key that was used transposed has its tokens adjacent, so that several sequences of it
/// are copied.
pub(super) fn flat_rows(tape: &mut Tape, grad: Tensor) -> Tensor {
    let several = grad.shape.sizes().first().is_some_and(|&sequences| 1 < sequences);
    let apart = matches!(grad.layout, Layout::ColumnMajor | Layout::ChannelsFirst);
    if !apart || !several {
        return grad;
    }
    let flat = tape.copy(&grad, grad.shape);
    tape.release(grad);
    flat
}

/// `mm`: `mat2` before `self`. `addmm`: `mat1`, `mat2`, then the bias is the gradient itself, summed
/// over rows afterwards.
pub(super) fn linear(
    tape: &mut Tape,
    grad: &Tensor,
    product: &Product,
    context: Context,
) -> Gradients {
    let &Product { rows, inner, outer, bias, transposed, input } = product;
    let mut outputs = NONE;
    // `LinearFunctionForZeroStage3` takes the place of `F.linear` and is written in that order.
    let replaced = transposed && tape.gathers_weights();
    let order = if bias || replaced { [0, 1] } else { [1, 0] };
    for i in order {
        if !context.edges[i].wanted() {
            continue;
        }
        outputs[i] = Some(if i == 0 {
            let out = tape.empty(input, grad.dtype, context.prim);
            tape.workspace(Library::Blas);
            tape.run(context.prim, matmul([rows, inner, outer, 1], Pass::InputGrad, grad.dtype));
            // More than two dimensions are folded into two, and back by a view.
            Tensor { view: 2 < input.sizes().len() && !replaced, ..out }
        } else {
            let out = tape.empty(Shape::new([outer, inner]), grad.dtype, context.prim);
            tape.workspace(Library::Blas);
            tape.run(context.prim, matmul([outer, inner, rows, 1], Pass::WeightGrad, grad.dtype));
            Tensor { view: transposed && !replaced, ..out }
        });
    }
    if bias && context.edges[2].wanted() {
        outputs[2] = Some(tape.share(grad));
    }
    outputs
}

/// `bmm`: `mat2` before `self`.
pub(super) fn bmm(tape: &mut Tape, grad: &Tensor, size: &Batched, edges: Edges) -> Gradients {
    let &Batched { batch, m, k, n, transposed, inputs } = size;
    let mut outputs = NONE;
    if edges[1].wanted() {
        let out = tape.empty(inputs[1], grad.dtype, Prim::Bmm);
        tape.workspace(Library::Blas);
        tape.run(Prim::Bmm, matmul([k, n, m, batch], Pass::WeightGrad, grad.dtype));
        let layout = if transposed { Layout::ColumnMajor } else { Layout::Contiguous };
        outputs[1] = Some(Tensor { layout, ..out });
    }
    if edges[0].wanted() {
        let out = tape.empty(inputs[0], grad.dtype, Prim::Bmm);
        tape.workspace(Library::Blas);
        tape.run(Prim::Bmm, matmul([m, k, n, batch], Pass::InputGrad, grad.dtype));
        outputs[0] = Some(out);
    }
    outputs
}

pub(super) fn sdpa(
    tape: &mut Tape,
    attention: &Attention,
    dtype: DType,
    edges: Edges,
) -> Gradients {
    tape.fused_gradients(attention, dtype, edges[3].wanted())
}

/// The gradient summed over each group of query heads.
pub(super) fn repeat_kv(tape: &mut Tape, grad: &Tensor, input: Shape, groups: u64) -> Gradients {
    debug_assert_eq!(grad.shape.elements(), input.elements() * groups, "a gradient per query head");
    let result = tape.empty(input, grad.dtype, Prim::Sum);
    tape.run(
        Prim::Sum,
        reduction(Reduce::First, &grad.shape, grad.dtype, grad.bytes() + result.bytes()),
    );
    one(result)
}

/// Rows above which a narrow layer norm's weight and bias gradients are summed in two passes.
const MANY_ROWS: u64 = 64 * 1024;
/// Rows that one block of the first pass sums.
const ROWS_OF_BLOCK: u64 = 32;
/// Columns of a block.
const COLUMNS_OF_BLOCK: u64 = 32;

/// Input, weight and bias gradients. What is not contiguous is copied; with many rows of few columns
/// partial sums of each block of rows come first, whose sums replace the gradients.
///
/// Source: `layer_norm_backward_cuda`, `LaunchGammaBetaBackwardCUDAKernel`
/// (`aten/src/ATen/native/cuda/layer_norm_kernel.cu`).
pub(super) fn layer_norm(
    tape: &mut Tape,
    grad: &Tensor,
    [rows, columns]: [u64; 2],
    layout: Layout,
    context: Context,
) -> Gradients {
    let shape = grad.shape;
    debug_assert_eq!(shape.elements(), rows * columns, "the gradient has the input's elements");
    let first = |layout| layout == Layout::ChannelsFirst;
    let grad_copy = first(grad.layout).then(|| tape.copy(grad, shape));
    let input_copy = first(layout).then(|| tape.elementwise(Prim::Copy, &[grad], context.dtype));
    let shapes = [shape, Shape::new([columns]), Shape::new([columns])];
    let mut outputs = NONE;
    for (i, shape) in shapes.into_iter().enumerate() {
        if context.edges[i].wanted() {
            outputs[i] = Some(tape.empty(shape, context.dtype, Prim::LayerNorm));
        }
    }
    let narrow = columns / COLUMNS_OF_BLOCK < tape.device.sm_count / 2;
    if MANY_ROWS < rows && narrow {
        let blocks = Shape::new([rows.div_ceil(ROWS_OF_BLOCK), columns]);
        let partial = [(); 2].map(|()| tape.empty(blocks, context.dtype, Prim::LayerNorm));
        for (output, partial) in outputs[1..].iter_mut().zip(&partial) {
            let Some(empty) = output.take() else { continue };
            *output = Some(tape.sum_leading(partial, Shape::new([columns]), context.dtype));
            tape.release(empty);
        }
        partial.into_iter().rev().for_each(|tensor| tape.release(tensor));
    }
    for tensor in [input_copy, grad_copy].into_iter().flatten() {
        tape.release(tensor);
    }
    tape.run(
        Prim::LayerNorm,
        reduction(Reduce::LayerNormBackward, &shape, context.dtype, 3 * grad.bytes()),
    );
    outputs
}

/// Softmax multiplies the gradient by the output into a temporary first (`softmax_backward_cuda_out`,
/// `aten/src/ATen/native/cuda/SoftMax.cu`); log-softmax reads both in its kernel.
pub(super) fn softmax(tape: &mut Tape, grad: &Tensor, to: DType, prim: Prim) -> Gradients {
    let result = tape.empty(grad.shape, to, prim);
    if prim == Prim::LogSoftmax {
        tape.categorise(result.storage, Category::Logits);
    } else {
        tape.scratch(grad.bytes(), prim);
    }
    let kind =
        if prim == Prim::Softmax { Reduce::SoftmaxBackward } else { Reduce::LogSoftmaxBackward };
    let bytes = 2 * grad.bytes() + result.bytes();
    tape.run(prim, reduction(kind, &grad.shape, grad.dtype, bytes));
    one(result)
}

pub(super) fn nll_loss(tape: &mut Tape, input: Shape, context: Context) -> Gradients {
    let result = tape.empty(input, context.dtype, Prim::NllLoss);
    tape.categorise(result.storage, Category::Logits);
    tape.run(Prim::NllLoss, pointwise(Pointwise::Unary, context.dtype, result.bytes()));
    one(result)
}

/// The gradients made in the forward pass, handed out.
pub(super) fn fused_loss(
    tape: &mut Tape,
    inputs: [Shape; 2],
    context: Context,
    saved: &[SavedSlot],
) -> Gradients {
    // `grad_output != torch.tensor(1.0)`.
    let one = tape.allocate(4, Prim::FusedLoss);
    let differs = tape.allocate(1, Prim::FusedLoss);
    tape.scratch(1, Prim::FusedLoss);
    tape.release_storage(differs);
    tape.release_storage(one);
    tape.run(Prim::FusedLoss, pointwise(Pointwise::Unary, DType::F32, 4));
    let mut outputs = NONE;
    for (i, slot) in saved.iter().enumerate().take(2) {
        let SavedSlot::Held(storage) = *slot else { continue };
        if context.edges[i].wanted() {
            outputs[i] = Some(tape.handle(storage, inputs[i], context.dtype));
        }
    }
    outputs
}
