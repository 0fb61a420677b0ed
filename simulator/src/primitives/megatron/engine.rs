//! Transformer Engine's functions: a norm and a product in one, fused attention, rotations, losses.
//!
//! Source: Transformer Engine 2.11 (`transformer_engine/pytorch`): `module/layernorm_linear.py`,
//! `module/base.py`, `attention/dot_product_attention`, `attention/rope.py`,
//! `triton/cross_entropy.py`. Without FP8 and without overlapped communication.

use crate::clock::{AttentionKernel, Pass, Pointwise, Reduce};
use crate::tape::{
    Attention, AttentionLibrary, EngineAttention, Library, MAX_INPUTS, Megatron, ParallelProduct,
    ParamId, Prim, Runner, Tape, Tensor,
};
use crate::tensor::{DType, Layout, Shape};

use super::super::backward::Gradients;
use super::super::fused::attention_work;
use super::super::reshape::four;
use super::super::work::{pointwise, product, reduction};
use super::Running;
use super::linear::rows_of;

impl Tape {
    /// `_LayerNormLinear`: keeps its input, the norm's output and statistics, and the weights. The whole
    /// sequence's input is gathered into a tensor that goes with the product.
    pub fn norm_linear(
        &mut self,
        x: &Tensor,
        [norm, norm_bias]: [Option<ParamId>; 2],
        [weight, bias]: [Option<ParamId>; 2],
        (gathered, runner): (Option<u64>, Runner),
    ) -> Tensor {
        let (Some(norm), Some(weight)) = (norm, weight) else {
            unreachable!("a norm and a product have weights")
        };
        let [norm, weight] = [norm, weight].map(|id| self.weight(id));
        let &[outer, inner] = weight.shape.sizes() else { unreachable!("a weight is a matrix") };
        let times = gathered.unwrap_or(1);
        let size = ParallelProduct {
            rows: x.shape.rows() * times,
            inner,
            outer,
            input: x.shape,
            gathered: gathered.is_some(),
            bias: bias.is_some(),
            runner,
        };
        let bias = bias.map(|id| self.weight(id));
        // The gradient of the norm's bias is left out: a row beside one for its weight.
        let inputs: Vec<&Tensor> = [x, &norm, &weight].into_iter().chain(bias.as_ref()).collect();
        let node = self.megatron_node(Prim::Linear, Megatron::NormLinear(size), &inputs);
        let normed = self.empty(x.shape, x.dtype, Prim::LayerNorm);
        let statistics = if norm_bias.is_some() { 2 } else { 1 };
        let rows = Shape::new([statistics * x.shape.rows()]);
        let statistics = self.empty(rows, DType::F32, Prim::LayerNorm);
        let work = reduction(Reduce::LayerNorm, &x.shape, x.dtype, 2 * x.bytes());
        self.run(Prim::LayerNorm, work);
        let node = node.map(|mut node| {
            for tensor in [x, &weight, &norm, &normed, &statistics] {
                self.save(&mut node, tensor);
            }
            node
        });
        let whole = gathered.map(|_| self.exchanged(&normed, rows_of(x.shape, times)));
        self.workspace(Library::Engine);
        let out = self.empty(rows_of(x.shape, times).with_last(outer), x.dtype, Prim::Linear);
        self.run(Prim::Linear, product([size.rows, outer, inner, 1], Pass::Forward, x.dtype));
        let others = [Some(statistics), Some(normed), whole, bias, Some(weight), Some(norm)];
        for tensor in others.into_iter().flatten() {
            self.release(tensor);
        }
        self.with_node(out, node)
    }

    /// Its backward: the product's gradients, then the norm's over the scattered part.
    pub(super) fn norm_linear_gradients(
        &mut self,
        running: &mut Running,
        size: &ParallelProduct,
    ) -> Gradients {
        const NORMED: usize = 3;
        let &ParallelProduct { rows, inner, outer, input, gathered, bias, runner } = size;
        let grad = self.share(running.grad());
        let dtype = grad.dtype;
        let times = rows / input.rows();
        let whole_shape = rows_of(input, times);
        let whole = gathered.then(|| self.empty(whole_shape, dtype, Prim::Collective));
        self.workspace(Library::Engine);
        let of_product = self.empty(whole_shape, dtype, Prim::Linear);
        self.run(Prim::Linear, product([rows, inner, outer, 1], Pass::InputGrad, dtype));
        let part = gathered.then(|| self.exchanged(&of_product, input));
        let of_weight = self.weight_gradient([outer, inner], rows, dtype, runner);
        let of_bias = bias.then(|| self.empty(Shape::new([outer]), dtype, Prim::Sum));
        // `clear_tensor_data(ln_out)`, `clear_tensor_data(ln_out_total)`.
        running.free_saved(self, NORMED);
        if let Some(whole) = whole {
            self.release(whole);
        }
        let of_input = self.empty(input, dtype, Prim::LayerNorm);
        let of_norm = self.empty(Shape::new([inner]), dtype, Prim::LayerNorm);
        let work = reduction(Reduce::LayerNormBackward, &input, dtype, 3 * of_input.bytes());
        self.run(Prim::LayerNorm, work);
        for tensor in [part, Some(of_product), Some(grad)].into_iter().flatten() {
            self.release(tensor);
        }
        let mut outputs = [Some(of_input), Some(of_norm), Some(of_weight), of_bias];
        self.drop_unwanted(&mut outputs, running.wanted);
        outputs
    }

    /// A weight's gradient: added to its buffer by the product, with a dummy in its place, or made anew.
    pub(super) fn weight_gradient(
        &mut self,
        [outer, inner]: [u64; 2],
        rows: u64,
        dtype: DType,
        runner: Runner,
    ) -> Tensor {
        let shape = Shape::new([outer, inner]);
        let out = if runner == Runner::EngineFused {
            self.dummy_gradient(shape, dtype)
        } else {
            self.empty(shape, dtype, Prim::Linear)
        };
        self.run(Prim::Linear, product([outer, inner, rows, 1], Pass::WeightGrad, dtype));
        out
    }

    pub(super) fn drop_unwanted(&mut self, outputs: &mut Gradients, wanted: [bool; MAX_INPUTS]) {
        for (output, wanted) in outputs.iter_mut().zip(wanted) {
            if !wanted && let Some(unused) = output.take() {
                self.release(unused);
            }
        }
    }

    /// `FusedRoPEFunc`: one kernel; keeps the frequencies.
    pub fn fused_rotation(&mut self, x: &Tensor, frequencies: &Tensor) -> Tensor {
        let rule = Megatron::Exchange { input: x.shape };
        let node = self.megatron_node(Prim::Mul, rule, &[x]).map(|mut node| {
            self.save(&mut node, frequencies);
            node
        });
        let out = self.elementwise_of(x.shape, x.dtype, Prim::Mul);
        self.with_node(out, node)
    }

    /// `squared_relu`, compiled: `relu(x)²`; keeps its input.
    pub fn squared_relu(&mut self, x: &Tensor) -> Tensor {
        let rule = Megatron::SquaredRelu { input: x.shape };
        let node = self.megatron_node(Prim::Relu, rule, &[x]).map(|mut node| {
            self.save(&mut node, x);
            node
        });
        let out = self.elementwise_of(x.shape, x.dtype, Prim::Relu);
        self.with_node(out, node)
    }

    /// Attention over `[tokens, batch, heads, dim]` by cuDNN; keeps query, key, value, result and the
    /// scores' log-sum-exp. Ranks that share each sequence exchange it for a part of the heads first.
    pub fn engine_attention(&mut self, inputs: [&Tensor; 3], context: u64) -> Tensor {
        let [tokens, batch, heads, head_dim] = four(inputs[0]);
        let kv_heads = four(inputs[1])[2];
        let attention = Attention {
            kernel: AttentionKernel::Cudnn,
            library: AttentionLibrary::PyTorch,
            batch,
            heads: heads / context,
            kv_heads: kv_heads / context,
            tokens: tokens * context,
            kv_tokens: tokens * context,
            head_dim,
            value_dim: head_dim,
            causal: true,
        };
        let rule = Megatron::EngineAttention(EngineAttention { attention, context });
        let node = self.megatron_node(Prim::Sdpa, rule, &inputs);
        let dtype = inputs[0].dtype;
        let given = if 1 < context {
            self.exchanged_heads(inputs)
        } else {
            inputs.map(|input| self.share(input))
        };
        let random = self.empty(Shape::new([2]), DType::I64, Prim::Sdpa);
        let whole = Shape::new([tokens * context, batch, heads / context * head_dim]);
        let attended = self.empty(whole, dtype, Prim::Sdpa);
        let lse = Shape::new([batch, heads / context, tokens * context]);
        let lse = self.empty(lse, DType::F32, Prim::Sdpa);
        self.run(Prim::Sdpa, attention_work(&attention, dtype, false));
        let node = node.map(|mut node| {
            for tensor in given.iter().chain([&attended, &lse, &random]) {
                self.save(&mut node, tensor);
            }
            node
        });
        let out = Shape::new([tokens, batch, heads * head_dim]);
        let result =
            if 1 < context { self.returned_heads(&attended, out) } else { self.share(&attended) };
        for tensor in given.into_iter().chain([attended, lse, random]) {
            self.release(tensor);
        }
        self.with_node(Tensor { shape: out, layout: Layout::Contiguous, ..result }, node)
    }

    pub(super) fn engine_attention_gradients(
        &mut self,
        grad: &Tensor,
        size: &EngineAttention,
    ) -> Gradients {
        let &EngineAttention { attention, context } = size;
        let Attention { batch, heads, kv_heads, tokens, head_dim, .. } = attention;
        let dtype = grad.dtype;
        let of_out = if 1 < context {
            let [of_out] = self.exchanged_heads([grad]);
            of_out
        } else {
            self.share(grad)
        };
        let grads = [heads, kv_heads, kv_heads].map(|heads| {
            self.empty(Shape::new([tokens, batch, heads, head_dim]), dtype, Prim::Sdpa)
        });
        self.cudnn_scratch(&attention, dtype);
        self.run(Prim::Sdpa, attention_work(&attention, dtype, true));
        let grads = if 1 < context {
            let local = grads.map(|whole| {
                let [tokens, batch, heads, dim] = four(&whole);
                let shape = Shape::new([tokens / context, batch, heads * context, dim]);
                let part = self.returned_heads(&whole, shape);
                self.release(whole);
                part
            });
            self.release(of_out);
            local
        } else {
            self.release(of_out);
            grads
        };
        let [query, key, value] = grads.map(Some);
        [query, key, value, None]
    }

    /// `flash_attn_a2a_communicate(…, before_attn=True)`: a copy by heads, the exchange, a copy in order of
    /// the sequence; the first copies are held in a list to its end.
    fn exchanged_heads<const N: usize>(&mut self, inputs: [&Tensor; N]) -> [Tensor; N] {
        let mut copies = Vec::new();
        let mut outputs = inputs.map(|input| self.share(input));
        for i in 0..N + 2 {
            if 0 < i && i < N + 1 {
                let received = self.exchanged(inputs[i - 1], inputs[i - 1].shape);
                self.release(core::mem::replace(&mut outputs[i - 1], received));
            }
            if 1 < i {
                let sorted = self.copied_of(&outputs[i - 2]);
                self.release(core::mem::replace(&mut outputs[i - 2], sorted));
            }
            if let Some(input) = inputs.get(i) {
                copies.push(self.copied_of(input));
            }
        }
        for copy in copies {
            self.release(copy);
        }
        outputs
    }

    /// `flash_attn_a2a_communicate(…, before_attn=False)`: a copy in the ranks' order, the exchange, a copy
    /// by tokens.
    fn returned_heads(&mut self, x: &Tensor, shape: Shape) -> Tensor {
        let sorted = self.copied_of(x);
        let received = self.exchanged(&sorted, shape);
        let out = self.copied_of(&received);
        self.release(received);
        self.release(sorted);
        out
    }

    fn copied_of(&mut self, x: &Tensor) -> Tensor {
        self.elementwise_of(x.shape, x.dtype, Prim::Copy)
    }

    /// `parallel_cross_entropy`: statistics of each row, gathered from all ranks, then the gradient in the
    /// logits' memory, which is kept.
    pub fn cross_entropy_in_place(
        &mut self,
        logits: &Tensor,
        target: &Tensor,
        ranks: u64,
    ) -> Tensor {
        let rows = logits.shape.rows();
        let rule = Megatron::GradientInPlace { input: logits.shape };
        let node = self.megatron_node(Prim::NllLoss, rule, &[logits]);
        let loss = self.helper(target.shape, DType::F32, Prim::NllLoss);
        let statistics = self.helper(Shape::new([3 * rows]), DType::F32, Prim::NllLoss);
        let gathered = (1 < ranks)
            .then(|| self.helper(Shape::new([3 * rows * ranks]), DType::F32, Prim::Collective));
        let work = reduction(Reduce::Softmax, &logits.shape, logits.dtype, 3 * logits.bytes());
        self.run(Prim::NllLoss, work);
        for tensor in gathered.into_iter().chain([statistics]) {
            self.release(tensor);
        }
        let node = node.map(|mut node| {
            self.save(&mut node, logits);
            node
        });
        self.with_node(loss, node)
    }

    /// The kept gradient, scaled in place by the losses' own.
    pub(super) fn gradient_in_place(&mut self, running: &Running, input: Shape) -> Tensor {
        let crate::tape::SavedSlot::Held(storage) = running.saved[0] else {
            unreachable!("the function keeps its logits")
        };
        let gradient = self.handle(storage, input, running.dtype);
        let work = pointwise(Pointwise::Unary, gradient.dtype, 2 * gradient.bytes());
        self.run(Prim::NllLoss, work);
        gradient
    }
}
