//! The products of Megatron-core's own attention.
//!
//! Source: `DotProductAttention.forward`, megatron-core 0.19.2 (`transformer/dot_product_attention.py`).

use crate::clock::{Pass, Pointwise};
use crate::tape::{Backward, Batched, Library, Megatron, Prim, Tape, Tensor};
use crate::tensor::{Layout, Shape};

use super::super::backward::Gradients;
use super::super::reshape::four;
use super::super::work::{pointwise, product};

impl Tape {
    /// `x.repeat_interleave(groups, dim=2)` of `[tokens, batch, heads, dim]`: expanded, then copied.
    pub fn repeat_groups(&mut self, x: &Tensor, groups: u64) -> Tensor {
        let [tokens, batch, heads, dim] = four(x);
        let rule = Megatron::RepeatInterleave { input: x.shape, groups };
        let node = self.megatron_node(Prim::RepeatKv, rule, &[x]);
        let out =
            self.empty(Shape::new([tokens, batch, heads * groups, dim]), x.dtype, Prim::RepeatKv);
        let bytes = x.bytes() + out.bytes();
        self.run(Prim::RepeatKv, pointwise(Pointwise::Strided, x.dtype, bytes));
        self.with_node(out, node)
    }

    /// `torch.baddbmm(buffer, query, keyᵀ, beta=0, alpha=scale)` of `[heads, tokens, dim]` each, the
    /// buffer being the global one; keeps query and key.
    pub fn scaled_scores(&mut self, query: &Tensor, key: &Tensor) -> Tensor {
        let &[batch, m, k] = query.shape.sizes() else {
            unreachable!("heads are three-dimensional")
        };
        let &[_, n, _] = key.shape.sizes() else { unreachable!("heads are three-dimensional") };
        let inputs = [query.shape, key.shape];
        let size = Batched { batch, m, k, n, transposed: true, inputs };
        let node = self.megatron_node(Prim::Bmm, Megatron::Baddbmm(size), &[query, key]);
        let node = node.map(|mut node| {
            self.save(&mut node, query);
            self.save(&mut node, key);
            node
        });
        let out = self.empty(Shape::new([batch, m, n]), query.dtype, Prim::Bmm);
        self.workspace(Library::Blas);
        self.run(Prim::Bmm, product([m, n, k, batch], Pass::Forward, query.dtype));
        self.with_node(out, node)
    }

    /// Each gradient is a product, then that times the scale (`maybe_multiply`).
    pub(super) fn baddbmm_gradients(&mut self, grad: &Tensor, size: &Batched) -> Gradients {
        let &Batched { batch, m, k, n, inputs, .. } = size;
        let mut scaled = |shape, pass| {
            let plain = self.empty(shape, grad.dtype, Prim::Bmm);
            self.workspace(Library::Blas);
            self.run(Prim::Bmm, product([m, k, n, batch], pass, grad.dtype));
            let out = self.empty(shape, grad.dtype, Prim::Mul);
            self.run(Prim::Mul, pointwise(Pointwise::Unary, grad.dtype, 2 * out.bytes()));
            self.release(plain);
            out
        };
        let [of_query, of_key] =
            [scaled(inputs[0], Pass::InputGrad), scaled(inputs[1], Pass::WeightGrad)];
        [Some(of_query), Some(of_key), None, None]
    }

    /// `scaled_upper_triang_masked_softmax`: one kernel; keeps its result, and writes the gradient over
    /// the one that comes.
    ///
    /// Source: `megatron/fused_kernels/scaled_upper_triang_masked_softmax_cuda.cu`.
    pub fn masked_softmax(&mut self, x: &Tensor) -> Tensor {
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Softmax, Backward::Pass, &[x]));
        let out = self.elementwise_of(x.shape, x.dtype, Prim::Softmax);
        let node = node.map(|mut node| {
            self.save(&mut node, &out);
            node
        });
        self.with_node(out, node)
    }

    /// `torch.bmm(probabilities, value)` of `[heads, tokens, …]`; keeps both.
    pub fn weighted_values(&mut self, probabilities: &Tensor, value: &Tensor) -> Tensor {
        let &[batch, m, k] = probabilities.shape.sizes() else {
            unreachable!("heads are three-dimensional")
        };
        let n = value.shape.last();
        let inputs = [probabilities.shape, value.shape];
        let size = Batched { batch, m, k, n, transposed: false, inputs };
        let node = self.records(&[probabilities, value]).then(|| {
            let rule = Backward::Bmm(size);
            let mut node = self.begin_node(Prim::Bmm, rule, &[probabilities, value]);
            // By name: mat2 before self.
            self.save(&mut node, value);
            self.save(&mut node, probabilities);
            node
        });
        let out = self.empty(Shape::new([batch, m, n]), probabilities.dtype, Prim::Bmm);
        self.workspace(Library::Blas);
        self.run(Prim::Bmm, product([m, n, k, batch], Pass::Forward, out.dtype));
        let out = self.with_node(out, node);
        Tensor { layout: Layout::Contiguous, ..out }
    }
}
