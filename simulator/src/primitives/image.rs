//! What image networks do beside convolutions and norms: pools, activations in place, concatenated
//! channels, noise that drops whole images.

use crate::clock::{HostWork, Pointwise, Reduce};
use crate::tape::{Backward, Edge, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};
use crate::wire::timeline::Category;

use super::reduce::{ReduceScratch, inner_reduction, outer_reduction};
use super::reshape::four;
use super::work::{pointwise, reduction};

impl Tape {
    /// What Python pays around a module's forward.
    pub fn module_call(&mut self) {
        self.host(HostWork::Module);
    }

    /// `nn.MaxPool2d`: result and 64-bit indices; keeps input and indices.
    ///
    /// Source: `max_pool2d_with_indices` in `native/cuda/DilatedMaxPool2d.cu`.
    pub fn max_pool(&mut self, x: &Tensor, side: u64) -> Tensor {
        let [images, channels, ..] = four(x);
        let rule = Backward::Pool { input: x.shape, layout: x.layout };
        let node = self.records(&[x]).then(|| {
            let mut node = self.begin_node(Prim::Pool, rule, &[x]);
            self.save(&mut node, x);
            node
        });
        let shape = Shape::new([images, channels, side, side]);
        let out = self.empty(shape, x.dtype, Prim::Pool);
        let indices = self.empty(shape, DType::I64, Prim::Pool);
        self.run(Prim::Pool, pool_work(x, out.bytes() + indices.bytes()));
        let node = node.map(|mut node| {
            self.save(&mut node, &indices);
            node
        });
        let out = self.with_node(Tensor { layout: x.layout, ..out }, node);
        self.release(indices);
        out
    }

    /// `nn.AvgPool2d`, or `nn.AdaptiveAvgPool2d` to more than one pixel; keeps its input.
    ///
    /// Source: `native/cuda/AveragePool2d.cu`, `native/cuda/AdaptiveAveragePooling.cu`.
    pub fn average_pool(&mut self, x: &Tensor, side: u64) -> Tensor {
        let [images, channels, ..] = four(x);
        let rule = Backward::Pool { input: x.shape, layout: x.layout };
        let node = self.records(&[x]).then(|| {
            let mut node = self.begin_node(Prim::Pool, rule, &[x]);
            self.save(&mut node, x);
            node
        });
        let out = self.empty(Shape::new([images, channels, side, side]), x.dtype, Prim::Pool);
        self.run(Prim::Pool, pool_work(x, out.bytes()));
        self.with_node(Tensor { layout: x.layout, ..out }, node)
    }

    /// The gradient of a pool's input.
    pub(super) fn pool_gradient(&mut self, grad: &Tensor, input: Shape, layout: Layout) -> Tensor {
        let out = self.empty(input, grad.dtype, Prim::Pool);
        self.run(Prim::Pool, pool_work(grad, 2 * out.bytes()));
        Tensor { layout, ..out }
    }

    /// `adaptive_avg_pool2d(x, 1)`: the mean over an image's pixels, which in the channels-last order is
    /// seen through `as_strided`.
    ///
    /// Source: `adaptive_avg_pool2d` in `native/AdaptiveAveragePooling.cpp`.
    pub fn image_mean(&mut self, x: &Tensor) -> Tensor {
        let [images, channels, side, _] = four(x);
        let rule = Backward::ImageMean { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Mean, rule, &[x]));
        let out = self.empty(Shape::new([images, channels, 1, 1]), x.dtype, Prim::Mean);
        let scratch = if x.layout == Layout::ChannelsLast {
            ReduceScratch::default()
        } else {
            inner_reduction(images * channels, side * side, self.device)
        };
        self.reduction_scratch(scratch);
        let seen = Shape::new([images * channels, side * side]);
        let bytes = x.bytes() + out.bytes();
        self.run(Prim::Mean, reduction(Reduce::Last, &seen, x.dtype, bytes));
        let out = self.with_node(out, node);
        if x.layout != Layout::ChannelsLast {
            return out;
        }
        let node = self
            .records(&[&out])
            .then(|| self.begin_node(Prim::View, Backward::AsStrided, &[&out]));
        self.host(HostWork::View);
        self.with_node(Tensor { layout: Layout::ChannelsLast, ..out }, node)
    }

    /// `grad.expand(input) / pixels`, which `TensorIterator` writes in the standard order.
    pub(super) fn image_mean_gradient(&mut self, grad: &Tensor, input: Shape) -> Tensor {
        let out = self.empty(input, grad.dtype, Prim::Div);
        self.run(Prim::Div, pointwise(Pointwise::Unary, grad.dtype, out.bytes() + grad.bytes()));
        out
    }

    /// Zeros of the base's size, the gradient copied in.
    pub(super) fn as_strided_gradient(&mut self, grad: &Tensor) -> Tensor {
        let out = self.empty(grad.shape, grad.dtype, Prim::Copy);
        self.run(Prim::Copy, pointwise(Pointwise::Copy, grad.dtype, 3 * out.bytes()));
        Tensor { view: true, ..out }
    }

    /// `x.permute(0, 2, 3, 1)` or back: a view.
    pub fn permute(&mut self, x: &Tensor, to_last: bool) -> Tensor {
        let rule = Backward::Permute { input: x.shape, to_last };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::View, rule, &[x]));
        self.host(HostWork::View);
        let [images, a, b, c] = four(x);
        let shape = if to_last { [images, b, c, a] } else { [images, c, a, b] };
        let out = self.permuted(x, Shape::new(shape), to_last);
        self.with_node(out, node)
    }

    pub(super) fn permuted(&mut self, x: &Tensor, shape: Shape, to_last: bool) -> Tensor {
        let [_, a, b, c] = four(x);
        let one_pixel = if to_last { b * c == 1 } else { a * b == 1 };
        let layout = match x.layout {
            dense if one_pixel => dense,
            dense if to_last => dense.channels_to_last(),
            dense => dense.channels_to_first(),
        };
        let out = self.view(x, shape);
        Tensor { layout, ..out }
    }

    /// `x.flatten(1)`: a view, or a copy where an image's channels are adjacent.
    pub fn flatten_image(&mut self, x: &Tensor) -> Tensor {
        let rule = Backward::Reshape { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Copy, rule, &[x]));
        let [images, channels, height, width] = four(x);
        let shape = Shape::new([images, channels * height * width]);
        let copies = x.layout == Layout::ChannelsLast && !x.shape.order_is_ambiguous();
        let out = if copies { self.copy(x, shape) } else { self.view(x, shape) };
        self.with_node(Tensor { layout: Layout::Contiguous, ..out }, node)
    }

    /// `relu_(x)`; keeps its result.
    pub fn relu_in_place(&mut self, x: Tensor) -> Tensor {
        let node = self.records(&[&x]).then(|| {
            let rule = Backward::Threshold { layout: x.layout };
            self.begin_node(Prim::Relu, rule, &[&x])
        });
        self.run(Prim::Relu, pointwise(Pointwise::Unary, x.dtype, 2 * x.bytes()));
        let node = node.map(|mut node| {
            self.save(&mut node, &x);
            node
        });
        self.with_node(x, node)
    }

    /// An activation in place whose gradient needs its input: keeps a copy made before.
    ///
    /// Source: `original_self` in the in-place functions that `tools/autograd/gen_variable_type.py`
    /// writes.
    pub fn activate_in_place(&mut self, prim: Prim, x: Tensor) -> Tensor {
        let node = self.records(&[&x]).then(|| {
            let mut node = self.begin_node(prim, Backward::Unary, &[&x]);
            let original = self.elementwise(Prim::Copy, &[&x], x.dtype);
            self.save(&mut node, &original);
            self.release(original);
            node
        });
        self.run(
            prim,
            pointwise(super::work::pointwise_of(prim, 1, x.dtype, x.dtype), x.dtype, 2 * x.bytes()),
        );
        self.with_node(x, node)
    }

    /// `model.to(memory_format=torch.channels_last)`: a copy of a parameter of four dimensions.
    pub fn channels_to_last(&mut self, id: ParamId) {
        let param = self.param(id);
        let (old, shape, dtype) = (param.storage, param.shape, param.dtype);
        if shape.sizes().len() != 4 {
            return;
        }
        let new = self.allocate(shape.elements() * dtype.bytes(), Prim::Parameter);
        self.own(new, id, Category::Weights);
        self.release_storage(old);
        let param = self.param_mut(id);
        (param.storage, param.layout) = (new, Layout::ChannelsLast);
    }

    /// `hardswish(x)`; keeps its input.
    pub fn hardswish(&mut self, x: &Tensor) -> Tensor {
        self.keeping_input(Prim::Hardswish, x, Backward::Unary)
    }

    /// `hardsigmoid(x)`; keeps its input.
    pub fn hardsigmoid(&mut self, x: &Tensor) -> Tensor {
        self.keeping_input(Prim::Hardsigmoid, x, Backward::Unary)
    }

    /// `small * x` with `small` broadcast over the pixels: in the memory order of `x`.
    pub fn mul_image(&mut self, small: &Tensor, x: &Tensor) -> Tensor {
        let out = self.mul(small, x);
        Tensor { layout: x.layout.of_result(), ..out }
    }

    /// Noise of one number an image, or of one an element, made and scaled in place.
    pub fn noise(&mut self, shape: Shape, dtype: DType) -> Tensor {
        let out = self.helper(shape, dtype, Prim::Bernoulli);
        self.run(Prim::Bernoulli, pointwise(Pointwise::Unary, dtype, 2 * out.bytes()));
        out
    }

    /// `dropout_(x, p)`: noise in the shape of `x`, which is multiplied in place; keeps the noise.
    ///
    /// Source: `_dropout_impl<…, inplace>` in `native/Dropout.cpp`.
    pub fn dropout_in_place(&mut self, x: Tensor, p: f64) -> Tensor {
        if p <= 0.0 {
            return x;
        }
        let noise = self.noise(x.shape, x.dtype);
        let node = self.records(&[&x]).then(|| {
            let rule = if x.view { Backward::DropoutOfView } else { Backward::Dropout };
            let mut node = self.begin_node(Prim::Mul, rule, &[&x]);
            self.save(&mut node, &noise);
            node
        });
        self.run(Prim::Mul, pointwise(Pointwise::Binary, x.dtype, 3 * x.bytes()));
        self.release(noise);
        let of_view = x.view;
        let x = self.with_node(x, node);
        // The view is seen anew through `as_strided` of its changed base.
        let node = (of_view && self.records(&[&x]))
            .then(|| self.begin_node(Prim::View, Backward::AsStrided, &[&x]));
        match node {
            Some(node) => self.with_node(x, Some(node)),
            None => x,
        }
    }

    /// The base's gradient as a copy, the slice's copied and multiplied.
    ///
    /// Source: `VariableHooks::grad_fn` and `CopySlices::apply_impl`
    /// (`torch/csrc/autograd/variable.cpp`, `functions/tensor.cpp`).
    pub(super) fn dropout_of_view_gradient(&mut self, grad: &Tensor) -> Tensor {
        let [result, slice] = [(); 2].map(|()| self.copy(grad, grad.shape));
        let product = self.elementwise(Prim::Mul, &[&slice], slice.dtype);
        for tensor in [slice, product] {
            self.release(tensor);
        }
        result
    }

    /// `torch.cat(features, 1)` of images.
    pub fn cat_channels(&mut self, features: &[Tensor]) -> Tensor {
        let inputs: Vec<&Tensor> = features.iter().collect();
        let [images, _, height, width] = four(&features[0]);
        let channels = features.iter().map(|x| x.shape.sizes()[1]).sum();
        let shape = Shape::new([images, channels, height, width]);
        let node = self.records(&inputs).then(|| {
            let mut node = self.begin_node(Prim::Cat, Backward::CatChannels, &[]);
            node.dtype = features[0].dtype;
            node.more().parts = features.iter().map(|x| (Edge::to(x.source), x.shape)).collect();
            node
        });
        let out = self.empty(shape, features[0].dtype, Prim::Cat);
        self.run(Prim::Cat, pointwise(Pointwise::Strided, out.dtype, 2 * out.bytes()));
        self.with_node(Tensor { layout: features[0].layout, ..out }, node)
    }

    /// The sum over images and pixels into one number a channel, or over pixels alone.
    pub(super) fn sum_image(&mut self, x: &Tensor, shape: Shape, dtype: DType) -> Tensor {
        let out = self.empty(shape, dtype, Prim::Sum);
        let (outputs, inputs) = (shape.elements(), x.shape.elements() / shape.elements());
        let scratch = match x.layout {
            Layout::ChannelsLast => outer_reduction(outputs, inputs, self.device),
            _ => inner_reduction(outputs, inputs, self.device),
        };
        self.reduction_scratch(scratch);
        let seen = Shape::new([outputs, inputs]);
        let bytes = x.bytes() + out.bytes();
        self.run(Prim::Sum, reduction(Reduce::Last, &seen, x.dtype, bytes));
        out
    }
}

fn pool_work(x: &Tensor, bytes: u64) -> crate::clock::Work {
    reduction(Reduce::Pool, &x.shape, x.dtype, x.bytes() + bytes)
}
