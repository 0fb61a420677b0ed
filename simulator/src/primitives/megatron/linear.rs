//! Column- and row-parallel products.

use crate::clock::Pass;
use crate::tape::{MAX_INPUTS, Megatron, ParallelProduct, ParamId, Prim, Runner, Tape, Tensor};
use crate::tensor::Shape;

use super::super::backward::Gradients;
use super::super::work::product;
use super::bias_of;

impl Tape {
    /// `LinearWithGradAccumulationAndAsyncCommunication`: keeps input and weight. With sequence
    /// parallelism the whole sequence's input is gathered into the global buffer, not kept.
    ///
    /// Transformer Engine's `_Linear` allocates the same.
    ///
    /// Source: `tensor_parallel/layers.py`; `torch.matmul` of three dimensions is one `mm`, and the
    /// bias is added to it in a new tensor.
    pub fn parallel_linear(
        &mut self,
        x: &Tensor,
        weight: ParamId,
        bias: Option<ParamId>,
        (gathered, runner): (Option<u64>, Runner),
    ) -> Tensor {
        let weight = self.weight(weight);
        let &[outer, inner] = weight.shape.sizes() else { unreachable!("a weight is a matrix") };
        let rows = x.shape.rows() * gathered.unwrap_or(1);
        let size = ParallelProduct {
            rows,
            inner,
            outer,
            input: x.shape,
            gathered: gathered.is_some(),
            bias: bias.is_some(),
            runner,
        };
        let bias = bias.map(|id| self.weight(id));
        let inputs: Vec<&Tensor> = [x, &weight].into_iter().chain(bias.as_ref()).collect();
        let node = self.megatron_node(Prim::Linear, Megatron::Linear(size), &inputs);
        let node = node.map(|mut node| {
            self.save(&mut node, x);
            self.save(&mut node, &weight);
            node
        });
        if gathered.is_some() {
            self.global_buffer(rows * inner * x.dtype.bytes());
        }
        let shape = rows_of(x.shape, gathered.unwrap_or(1)).with_last(outer);
        let mut out = self.empty(shape, x.dtype, Prim::Linear);
        self.workspace(runner.library());
        self.run(Prim::Linear, product([rows, outer, inner, 1], Pass::Forward, x.dtype));
        if bias.is_some() {
            let sum = self.elementwise(Prim::Add, &[&out], x.dtype);
            self.release(core::mem::replace(&mut out, sum));
        }
        for tensor in bias.into_iter().chain([weight]) {
            self.release(tensor);
        }
        self.with_node(out, node)
    }

    /// The input's gradient, its scattered part, the weight's, the bias's.
    pub(super) fn parallel_gradients(
        &mut self,
        grad: &Tensor,
        size: &ParallelProduct,
        wanted: [bool; MAX_INPUTS],
    ) -> Gradients {
        let &ParallelProduct { rows, inner, outer, input, gathered, bias, runner } = size;
        if gathered {
            self.global_buffer(rows * inner * grad.dtype.bytes());
        }
        let whole = grad.shape.with_last(inner);
        let whole = if gathered { whole } else { input };
        let mut of_input = self.empty(whole, grad.dtype, Prim::Linear);
        self.workspace(runner.library());
        self.run(Prim::Linear, product([rows, inner, outer, 1], Pass::InputGrad, grad.dtype));
        let part = gathered.then(|| self.exchanged(&of_input, input));
        let of_weight = self.weight_gradient([outer, inner], rows, grad.dtype, runner);
        let of_bias = bias.then(|| bias_of(self, grad));
        if let Some(part) = part {
            self.release(core::mem::replace(&mut of_input, part));
        }
        let mut outputs = [Some(of_input), Some(of_weight), of_bias, None];
        self.drop_unwanted(&mut outputs, wanted);
        outputs
    }
}

/// The shape with so many times the rows.
pub(super) fn rows_of(shape: Shape, times: u64) -> Shape {
    match *shape.sizes() {
        [rows, columns] => Shape::new([rows * times, columns]),
        [tokens, batch, columns] => Shape::new([tokens * times, batch, columns]),
        _ => shape,
    }
}
