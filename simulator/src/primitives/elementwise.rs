//! Element-wise primitives.

use crate::clock::Pointwise;
use crate::tape::{Backward, Prim, Source, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};

use super::work::{pointwise, pointwise_of};

impl Tape {
    /// A new tensor with the memory order of the first operand (`TensorIterator`).
    pub(super) fn elementwise(&mut self, prim: Prim, inputs: &[&Tensor], dtype: DType) -> Tensor {
        let shape = inputs[1..].iter().fold(inputs[0].shape, |s, t| s.broadcast(&t.shape));
        let layout = inputs[0].layout.of_result();
        let bytes: u64 = inputs.iter().map(|t| t.bytes()).sum();
        // What is contiguous in both orders gets the standard one (`fast_set_up`); copies keep theirs.
        let either = layout == Layout::ChannelsLast && shape.order_is_ambiguous();
        let layout = if either && prim != Prim::Copy { Layout::Contiguous } else { layout };
        let out = self.empty(shape, dtype, prim);
        let kind = pointwise_of(prim, inputs.len(), inputs[0].dtype, dtype);
        self.run(prim, pointwise(kind, inputs[0].dtype, bytes + out.bytes()));
        Tensor { layout, ..out }
    }

    /// `a + b`.
    pub fn add(&mut self, a: &Tensor, b: &Tensor) -> Tensor {
        let records = self.records(&[a, b]);
        let rule = Backward::Add { inputs: [a.shape, b.shape], dtypes: [a.dtype, b.dtype] };
        let node = records.then(|| self.begin_node(Prim::Add, rule, &[a, b]));
        let out = self.elementwise(Prim::Add, &[a, b], a.dtype.promote(b.dtype));
        self.with_node(out, node)
    }

    /// `a - b` of the same shape.
    pub fn sub(&mut self, a: &Tensor, b: &Tensor) -> Tensor {
        let rule = Backward::Sub { dtypes: [a.dtype, b.dtype] };
        let node = self.records(&[a, b]).then(|| self.begin_node(Prim::Add, rule, &[a, b]));
        let out = self.elementwise(Prim::Add, &[a, b], a.dtype.promote(b.dtype));
        self.with_node(out, node)
    }

    /// `a * b`.
    pub fn mul(&mut self, a: &Tensor, b: &Tensor) -> Tensor {
        let node = self.records(&[a, b]).then(|| {
            let rule = Backward::Mul { inputs: [a.shape, b.shape], dtypes: [a.dtype, b.dtype] };
            let mut node = self.begin_node(Prim::Mul, rule, &[a, b]);
            // Each input is kept when the other one needs a gradient.
            if a.requires_grad() {
                self.save(&mut node, b);
            }
            if b.requires_grad() {
                self.save(&mut node, a);
            }
            node
        });
        let out = self.elementwise(Prim::Mul, &[a, b], a.dtype.promote(b.dtype));
        self.with_node(out, node)
    }

    /// `a + number`.
    pub fn add_scalar(&mut self, a: &Tensor) -> Tensor {
        self.unary(Prim::Add, a, a.dtype, Backward::Pass)
    }

    /// `a += b` in place, `b` broadcast.
    pub fn add_in_place(&mut self, a: Tensor, b: &Tensor) -> Tensor {
        let node = self.records(&[&a, b]).then(|| {
            let rule = Backward::Add { inputs: [a.shape, b.shape], dtypes: [a.dtype, b.dtype] };
            self.begin_node(Prim::Add, rule, &[&a, b])
        });
        self.run(Prim::Add, pointwise(Pointwise::Binary, a.dtype, 2 * a.bytes() + b.bytes()));
        self.with_node(a, node)
    }

    /// `a /= number` in place.
    pub fn scale_in_place(&mut self, a: Tensor) -> Tensor {
        let node = self.records(&[&a]).then(|| self.begin_node(Prim::Div, Backward::Unary, &[&a]));
        self.run(Prim::Div, pointwise(Pointwise::Unary, a.dtype, 2 * a.bytes()));
        self.with_node(a, node)
    }

    /// `torch.where(condition, a, number)`: the number as a tensor, then the result in the memory
    /// order of `a`; keeps the condition. Source: `at::native::where`
    /// (`aten/src/ATen/native/TensorCompare.cpp`).
    pub fn where_or_number(&mut self, condition: &Tensor, a: &Tensor) -> Tensor {
        let node = self.records(&[a]).then(|| {
            let mut node = self.begin_node(Prim::Mask, Backward::Where, &[a]);
            self.save(&mut node, condition);
            node
        });
        let number = self.helper(Shape::scalar(), a.dtype, Prim::Mask);
        let out = self.elementwise(Prim::Mask, &[a, condition], a.dtype);
        self.release(number);
        self.with_node(out, node)
    }

    /// `a * number`.
    pub fn mul_scalar(&mut self, a: &Tensor) -> Tensor {
        self.unary(Prim::Mul, a, a.dtype, Backward::Unary)
    }

    /// `a / number`.
    pub fn div_scalar(&mut self, a: &Tensor) -> Tensor {
        self.unary(Prim::Div, a, a.dtype, Backward::Unary)
    }

    /// `a /= b` in place: keeps the divisor, and a copy of what was divided.
    pub fn div_in_place(&mut self, a: Tensor, b: &Tensor) -> Tensor {
        let node = self.records(&[&a, b]).then(|| {
            let rule = Backward::Div { inputs: [a.shape, b.shape], dtypes: [a.dtype, b.dtype] };
            let mut node = self.begin_node(Prim::Div, rule, &[&a, b]);
            self.save(&mut node, b);
            if b.requires_grad() {
                let original = self.elementwise(Prim::Copy, &[&a], a.dtype);
                self.save(&mut node, &original);
                self.release(original);
            }
            node
        });
        self.run(Prim::Div, pointwise(Pointwise::Binary, a.dtype, 2 * a.bytes() + b.bytes()));
        self.with_node(a, node)
    }

    /// `sigmoid(a)`; keeps its result.
    pub fn sigmoid(&mut self, a: &Tensor) -> Tensor {
        self.keeping_result(Prim::Sigmoid, a, Backward::Unary)
    }

    /// `-a`.
    pub fn neg(&mut self, a: &Tensor) -> Tensor {
        self.unary(Prim::Neg, a, a.dtype, Backward::Unary)
    }

    /// `a.cos()` or `a.sin()`, outside autograd.
    pub fn trigonometry(&mut self, a: &Tensor) -> Tensor {
        self.unary(Prim::Trigonometry, a, a.dtype, Backward::Pass)
    }

    /// `a.pow(number)`; keeps its input.
    pub fn square(&mut self, a: &Tensor) -> Tensor {
        self.keeping_input(Prim::Pow, a, Backward::Square)
    }

    /// `silu(a)`; keeps its input.
    pub fn silu(&mut self, a: &Tensor) -> Tensor {
        self.keeping_input(Prim::Silu, a, Backward::Unary)
    }

    /// `gelu(a)`, exact or by the tanh kernel; keeps its input.
    pub fn gelu(&mut self, a: &Tensor) -> Tensor {
        self.keeping_input(Prim::Gelu, a, Backward::Unary)
    }

    /// `relu(a)`; keeps its result.
    pub fn relu(&mut self, a: &Tensor) -> Tensor {
        self.keeping_result(Prim::Relu, a, Backward::Unary)
    }

    /// `tanh(a)`; keeps its result.
    pub fn tanh(&mut self, a: &Tensor) -> Tensor {
        self.keeping_result(Prim::Tanh, a, Backward::Unary)
    }

    /// `rsqrt(a)`; keeps its result.
    pub fn rsqrt(&mut self, a: &Tensor) -> Tensor {
        self.keeping_result(Prim::Rsqrt, a, Backward::Rsqrt)
    }

    /// `a.to(dtype)`; the same tensor when it has it already.
    pub fn cast(&mut self, a: &Tensor, dtype: DType) -> Tensor {
        if a.dtype == dtype {
            return self.share(a);
        }
        self.unary(Prim::Copy, a, dtype, Backward::Cast { to: a.dtype })
    }

    /// `dropout(a, p)` in training: the mask, then the result; keeps the mask.
    ///
    /// Source: `native_dropout_cuda`, `aten/src/ATen/native/cuda/Dropout.cu`: at p = 0 nothing runs.
    pub fn dropout(&mut self, a: &Tensor, p: f64) -> Tensor {
        if p <= 0.0 {
            return self.share(a);
        }
        let node =
            self.records(&[a]).then(|| self.begin_node(Prim::Dropout, Backward::Dropout, &[a]));
        let mask = self.empty(a.shape, DType::Bool, Prim::Dropout);
        let out = self.elementwise(Prim::Dropout, &[a], a.dtype);
        let node = node.map(|mut node| {
            self.save(&mut node, &mask);
            node
        });
        let out = self.with_node(out, node);
        self.release(mask);
        out
    }

    fn unary(&mut self, prim: Prim, a: &Tensor, dtype: DType, rule: Backward) -> Tensor {
        let node = self.records(&[a]).then(|| self.begin_node(prim, rule, &[a]));
        let out = self.elementwise(prim, &[a], dtype);
        self.with_node(out, node)
    }

    pub(super) fn keeping_input(&mut self, prim: Prim, a: &Tensor, rule: Backward) -> Tensor {
        let node = self.records(&[a]).then(|| {
            let mut node = self.begin_node(prim, rule, &[a]);
            self.save(&mut node, a);
            node
        });
        let out = self.elementwise(prim, &[a], a.dtype);
        self.with_node(out, node)
    }

    fn keeping_result(&mut self, prim: Prim, a: &Tensor, rule: Backward) -> Tensor {
        let node = self.records(&[a]).then(|| self.begin_node(prim, rule, &[a]));
        let out = self.elementwise(prim, &[a], a.dtype);
        let node = node.map(|mut node| {
            self.save(&mut node, &out);
            node
        });
        self.with_node(out, node)
    }

    /// The result with its node, when one was begun.
    #[expect(clippy::needless_pass_by_value, reason = "the handle moves into the result")]
    pub(super) fn with_node(&mut self, out: Tensor, node: Option<crate::tape::Node>) -> Tensor {
        let source = match node {
            Some(node) => self.finish_node(crate::tape::Node { made: out.storage, ..node }),
            None => Source::None,
        };
        Tensor { source, ..out }
    }

    /// A tensor of integers or masks that no gradient reaches.
    pub fn helper(&mut self, shape: Shape, dtype: DType, prim: Prim) -> Tensor {
        let out = self.empty(shape, dtype, prim);
        self.run(prim, pointwise(Pointwise::Unary, dtype, out.bytes()));
        out
    }
}
