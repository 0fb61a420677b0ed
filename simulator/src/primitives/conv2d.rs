//! Convolutions of images: which library runs them, in which memory order, with which copies.
//!
//! Sources: `aten/src/ATen/native/Convolution.cpp` (`_select_conv_backend`, `convolution_backward`),
//! `native/cudnn/ConvShared.cpp` (`cudnn_convolution_forward`, `cudnn_convolution_backward_input`,
//! `cudnn_convolution_backward_weight`), `native/ConvUtils.h` (`cudnn_conv_suggest_memory_format`).

use crate::clock::{HostWork, Issue, Pass, Pointwise, Work, WorkClass};
use crate::tape::{Backward, Conv2d, Edges, ParamId, Prim, SavedSlot, StorageId, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};

use super::backward::{Gradients, NONE};
use super::reshape::four;
use super::work::{narrow, number, pointwise};

/// Where a convolution's kernel goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Pixels from one place to the next.
    pub stride: u64,
    /// Pixels added at each edge.
    pub padding: u64,
    /// Groups of channels that do not meet.
    pub groups: u64,
}

impl Tape {
    /// `F.conv2d(x, weight, bias)` of square images. Keeps input and weight.
    ///
    /// Result, copies of weight and input in another memory order, cuDNN's workspace; the bias is added
    /// in place. Autocast casts from the last argument to the first.
    pub fn conv2d(
        &mut self,
        x: &Tensor,
        weight: ParamId,
        bias: Option<ParamId>,
        places: Places,
    ) -> Tensor {
        let bias = bias.map(|bias| self.cast_weight(bias));
        let weight = self.cast_weight(weight);
        let x = self.cast_input(x);
        let conv = conv_of(&x, &weight, bias.is_some(), places);
        let inputs: Vec<&Tensor> = [&x, &weight].into_iter().chain(bias.as_ref()).collect();
        let node = self.records(&inputs).then(|| {
            let mut node = self.begin_node(Prim::Conv, Backward::Conv2d(conv), &inputs);
            self.save(&mut node, &x);
            self.save(&mut node, &weight);
            node
        });
        let [_, _, shape] = conv.shapes();
        let out = self.empty(shape, x.dtype, Prim::Conv);
        let weight_copy = self.in_order(&weight, conv.layout);
        let x_copy = self.in_order(&x, conv.layout);
        self.conv2d_pass(&conv, Pass::Forward, x.dtype);
        for copy in [x_copy, weight_copy].into_iter().flatten() {
            self.release(copy);
        }
        if conv.bias {
            self.run(Prim::Add, pointwise(Pointwise::Binary, out.dtype, 2 * out.bytes()));
        }
        let out = self.with_node(Tensor { layout: conv.layout, ..out }, node);
        for tensor in [Some(x), Some(weight), bias].into_iter().flatten() {
            self.release(tensor);
        }
        out
    }

    /// Gradients of input and weight, each with the copies that its memory order asks for and its
    /// workspace, and the bias's as a sum. PyTorch's own kernels make the weight's first.
    pub(super) fn conv2d_gradients(
        &mut self,
        conv: &Conv2d,
        grad: &Tensor,
        saved: &[SavedSlot],
        edges: Edges,
    ) -> Gradients {
        let mut outputs = NONE;
        if conv.native {
            let contiguous = self.in_order(grad, conv.layout);
            let [input, weight, _] = conv.shapes();
            outputs[1] = edges[1].wanted().then(|| self.empty(weight, grad.dtype, Prim::Conv));
            self.conv2d_pass(conv, Pass::WeightGrad, grad.dtype);
            outputs[0] = edges[0].wanted().then(|| self.empty(input, grad.dtype, Prim::Conv));
            self.conv2d_pass(conv, Pass::InputGrad, grad.dtype);
            if let Some(tensor) = contiguous {
                self.release(tensor);
            }
        } else {
            let [input, weight, _] = conv.shapes();
            let kept = |tape: &mut Self, index: usize, shape| {
                let storage = match saved.get(index) {
                    Some(SavedSlot::Held(storage)) => *storage,
                    _ => StorageId::NONE,
                };
                let tensor = tape.handle(storage, shape, grad.dtype);
                Tensor { layout: conv.kept[index], ..tensor }
            };
            let x = kept(self, 0, input);
            let w = kept(self, 1, weight);
            let x_copy = self.in_order(&x, conv.layout);
            // `grad_output.to(input.suggest_memory_format())`: a slice is left as it is.
            let wanted = x_copy.as_ref().unwrap_or(&x).layout;
            let differs = suggests_last(grad) != (wanted == Layout::ChannelsLast);
            let grad_copy = differs.then(|| {
                let copy = self.copy(grad, grad.shape);
                Tensor { layout: wanted, ..copy }
            });
            let grad = grad_copy.as_ref().unwrap_or(grad);
            if edges[0].wanted() {
                outputs[0] = Some(self.conv2d_input_gradient(conv, grad, &w));
            }
            if edges[1].wanted() {
                let seen = x_copy.as_ref().unwrap_or(&x);
                outputs[1] = Some(self.conv2d_weight_gradient(conv, grad, seen));
            }
            for tensor in [grad_copy, x_copy, Some(x), Some(w)].into_iter().flatten() {
                self.release(tensor);
            }
        }
        if conv.bias && edges[2].wanted() {
            outputs[2] = Some(self.sum_image(grad, Shape::new([conv.outputs]), grad.dtype));
        }
        outputs
    }

    fn conv2d_input_gradient(&mut self, conv: &Conv2d, grad: &Tensor, weight: &Tensor) -> Tensor {
        let layout = suggested(grad, weight);
        let [input, ..] = conv.shapes();
        let out = self.empty(input, grad.dtype, Prim::Conv);
        let copies = [weight, grad].map(|tensor| self.in_order(tensor, layout));
        self.conv2d_pass(&Conv2d { layout, ..*conv }, Pass::InputGrad, grad.dtype);
        copies.into_iter().flatten().for_each(|tensor| self.release(tensor));
        Tensor { layout, ..out }
    }

    fn conv2d_weight_gradient(&mut self, conv: &Conv2d, grad: &Tensor, x: &Tensor) -> Tensor {
        let layout = suggested(x, grad);
        let [_, weight, _] = conv.shapes();
        let copies = [grad, x].map(|tensor| self.in_order(tensor, layout));
        let out = self.empty(weight, grad.dtype, Prim::Conv);
        self.conv2d_pass(&Conv2d { layout, ..*conv }, Pass::WeightGrad, grad.dtype);
        copies.into_iter().flatten().for_each(|tensor| self.release(tensor));
        Tensor { layout, ..out }
    }

    /// A copy in this memory order, where the tensor has another.
    pub(super) fn in_order(&mut self, x: &Tensor, layout: Layout) -> Option<Tensor> {
        let fits =
            x.layout == layout || x.layout != Layout::Strided && x.shape.order_is_ambiguous();
        (!fits).then(|| {
            let copy = self.copy(x, x.shape);
            Tensor { layout, ..copy }
        })
    }

    /// One of the three products, with what cuDNN asks for beside.
    fn conv2d_pass(&mut self, conv: &Conv2d, pass: Pass, dtype: DType) {
        if !conv.native {
            let bytes = conv.workspace(pass, dtype, self.device.sm_count);
            self.scratch(bytes, Prim::ConvWorkspace);
            self.run(Prim::View, Work::host(HostWork::Plan, Issue::Inner));
        }
        self.run(Prim::Conv, work(conv, pass, dtype));
    }
}

fn conv_of(x: &Tensor, weight: &Tensor, bias: bool, places: Places) -> Conv2d {
    let [images, inputs, side, _] = four(x);
    let [outputs, _, kernel, _] = four(weight);
    let Places { stride, padding, groups } = places;
    let layout = suggested(x, weight);
    let conv = Conv2d {
        images,
        inputs,
        outputs,
        side,
        kernel,
        stride,
        padding,
        groups,
        bias,
        layout,
        kept: [x.layout, weight.layout],
        native: false,
    };
    let depthwise = 1 < groups && groups == inputs && outputs.is_multiple_of(inputs);
    let first = layout == Layout::Contiguous;
    let native = depthwise && first && !(x.dtype == DType::F16 && suits_cudnn(&conv));
    Conv2d { native, ..conv }
}

/// `suggest_memory_format() == ChannelsLast`: a slice of the channels counts as well.
const fn suggests_last(tensor: &Tensor) -> bool {
    matches!(tensor.layout, Layout::ChannelsLast | Layout::SomeChannels)
}

/// The memory order in which cuDNN works: channels-last when either tensor is
/// (`cudnn_conv_suggest_memory_format`).
const fn suggested(a: &Tensor, b: &Tensor) -> Layout {
    if suggests_last(a) || suggests_last(b) { Layout::ChannelsLast } else { Layout::Contiguous }
}

/// Whether PyTorch gives a depthwise convolution in the standard order and in half precision to cuDNN.
///
/// Source: `use_cudnn_depthwise` and `check_cudnn_depthwise_workload_with_filter` in
/// `aten/src/ATen/native/Convolution.cpp`.
const fn suits_cudnn(conv: &Conv2d) -> bool {
    let &Conv2d { images, inputs, side, kernel, stride, .. } = conv;
    if inputs < 32 || !matches!(kernel, 1 | 3 | 5) || side < 7 {
        return false;
    }
    if stride != 2 {
        return stride == 1;
    }
    match (images, kernel) {
        (1, 1) => side <= 28,
        (1, _) => true,
        (_, 1) => images <= 16 && 128 <= inputs && side <= 7,
        _ => 512 <= inputs || 256 <= inputs && 28 <= side,
    }
}

/// A pass as the clock sees it.
fn work(conv: &Conv2d, pass: Pass, dtype: DType) -> Work {
    let small = |size: u64| u16::try_from(size).unwrap_or(u16::MAX);
    let tiny = |size: u64| u8::try_from(size).unwrap_or(u8::MAX);
    let out = small(conv.out_side());
    let class = WorkClass::Convolution {
        batch: narrow(conv.images),
        in_channels: small(conv.inputs),
        out_channels: small(conv.outputs),
        out_height: out,
        out_width: out,
        groups: small(conv.groups),
        kernel_height: tiny(conv.kernel),
        kernel_width: tiny(conv.kernel),
        stride: tiny(conv.stride),
        channels_last: conv.layout == Layout::ChannelsLast,
        pass,
    };
    let shapes = conv.shapes();
    let elements: u64 = shapes.iter().map(Shape::elements).sum();
    let [_, _, result] = shapes;
    let window = conv.inputs / conv.groups * conv.kernel * conv.kernel;
    let flops = result.elements().saturating_mul(2 * window);
    Work { flops, ..Work::sized(class, number(dtype), elements * dtype.bytes(), Issue::Python) }
}
