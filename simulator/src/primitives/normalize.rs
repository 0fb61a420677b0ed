//! Norms and softmaxes.

use crate::clock::Reduce;
use crate::tape::{Backward, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};

use super::work::reduction;

impl Tape {
    /// `x.mean(-1, keepdim=True)`.
    pub fn mean_last(&mut self, x: &Tensor) -> Tensor {
        let rule = Backward::Mean { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Mean, rule, &[x]));
        let out = self.empty(x.shape.with_last(1), x.dtype, Prim::Mean);
        let bytes = x.bytes() + out.bytes();
        self.run(Prim::Mean, reduction(Reduce::Last, &x.shape, x.dtype, bytes));
        self.with_node(out, node)
    }

    /// `nn.LayerNorm`: output, mean, reciprocal standard deviation; keeps input, mean, deviation and weight.
    ///
    /// Source: `layer_norm_cuda` in `aten/src/ATen/native/cuda/layer_norm_kernel.cu`; statistics are
    /// fp32 for half inputs. Under autocast it runs in fp32.
    pub fn layer_norm(&mut self, x: &Tensor, weight: ParamId, bias: ParamId) -> Tensor {
        let x = if self.autocast().is_some() { self.cast(x, DType::F32) } else { self.share(x) };
        let (rows, columns) = (x.shape.rows(), x.shape.last());
        let weight = self.weight(weight);
        let bias = self.weight(bias);
        let node = self.records(&[&x, &weight, &bias]).then(|| {
            let layout = x.layout;
            let rule = Backward::LayerNorm { rows, columns, layout };
            let mut node = self.begin_node(Prim::LayerNorm, rule, &[&x, &weight, &bias]);
            self.save(&mut node, &x);
            self.save(&mut node, &weight);
            self.save(&mut node, &bias);
            node
        });
        let contiguous = (x.layout == Layout::ChannelsFirst).then(|| self.copy(&x, x.shape));
        let out = self.empty(x.shape, x.dtype, Prim::LayerNorm);
        let mean = self.empty(Shape::new([rows]), DType::F32, Prim::LayerNorm);
        let rstd = self.empty(Shape::new([rows]), DType::F32, Prim::LayerNorm);
        if let Some(tensor) = contiguous {
            self.release(tensor);
        }
        let bytes = x.bytes() + out.bytes();
        self.run(Prim::LayerNorm, reduction(Reduce::LayerNorm, &x.shape, x.dtype, bytes));
        let node = node.map(|mut node| {
            self.save(&mut node, &mean);
            self.save(&mut node, &rstd);
            node
        });
        let out = self.with_node(out, node);
        for tensor in [mean, rstd, x, weight, bias] {
            self.release(tensor);
        }
        out
    }

    /// `softmax(x, dim=-1, dtype)`: computed in `dtype` without a separate cast (`_softmax` with
    /// `half_to_float`); keeps its result.
    pub fn softmax(&mut self, x: &Tensor, dtype: DType) -> Tensor {
        self.softmax_like(Prim::Softmax, x, dtype, Backward::Softmax { to: x.dtype })
    }

    /// `log_softmax(x, dim=-1)`; keeps its result.
    pub fn log_softmax(&mut self, x: &Tensor) -> Tensor {
        self.softmax_like(Prim::LogSoftmax, x, x.dtype, Backward::LogSoftmax { to: x.dtype })
    }

    fn softmax_like(&mut self, prim: Prim, x: &Tensor, dtype: DType, rule: Backward) -> Tensor {
        let node = self.records(&[x]).then(|| self.begin_node(prim, rule, &[x]));
        let out = self.empty(x.shape, dtype, prim);
        let kind = if prim == Prim::Softmax { Reduce::Softmax } else { Reduce::LogSoftmax };
        self.run(prim, reduction(kind, &x.shape, x.dtype, x.bytes() + out.bytes()));
        let node = node.map(|mut node| {
            self.save(&mut node, &out);
            node
        });
        self.with_node(out, node)
    }
}
