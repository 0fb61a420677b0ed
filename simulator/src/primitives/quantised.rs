//! Products with weights that are held in 4 bits.

use crate::clock::{Pass, Pointwise};
use crate::tape::{Backward, ParamId, Prim, Product, StorageId, Tape, Tensor};
use crate::tensor::DType;
use crate::wire::scenario::BaseFormat;

use super::backward::one;
use super::work::{pointwise, product};

/// Weights with one scale.
const BLOCK: u64 = 64;
/// Scales with one scale of their own.
const NESTED_BLOCK: u64 = 256;

/// Bytes that so many weights leave on the device: their codes, their scales and the tables.
///
/// # Source
///
/// bitsandbytes: `quantize_4bit` (`bitsandbytes/functional.py`, `blocksize=64`), its `QuantState`
/// (`absmax`, the 16 values of `code`; nested: 8-bit `absmax`, `offset`, `state2` of 256 values).
pub fn quantised_bytes(weights: u64, base: BaseFormat) -> [u64; 3] {
    let scales = weights.div_ceil(BLOCK);
    let codes = weights.div_ceil(2);
    match base {
        BaseFormat::Whole => [0; 3],
        BaseFormat::Nf4 => [codes, 4 * scales, 16 * 4],
        BaseFormat::Nf4Double => [codes, scales + 4 * scales.div_ceil(NESTED_BLOCK), 272 * 4 + 4],
    }
}

impl Tape {
    /// `Linear4bit.forward` → `MatMul4Bit`: the weight is made whole for the product and goes again; in
    /// backward once more. The input is kept, though nothing uses it (`ctx.tensors = (A, B)`).
    ///
    /// # Source
    ///
    /// bitsandbytes 0.41 to 0.43: `bitsandbytes/autograd/_functions.py`, `dequantize_4bit`.
    pub(super) fn quantised_linear(
        &mut self,
        x: &Tensor,
        weight: ParamId,
        bias: Option<ParamId>,
    ) -> Tensor {
        let param = self.param(weight);
        let &[outer, inner] = param.shape.sizes() else { unreachable!("a weight is a matrix") };
        let base = param.base;
        let has_bias = bias.is_some();
        let sizes = Product {
            rows: x.shape.rows(),
            inner,
            outer,
            bias: has_bias,
            transposed: true,
            input: x.shape,
        };
        let rule = Backward::QuantisedLinear { product: sizes, base };
        let node = self.records(&[x]).then(|| {
            let mut node = self.begin_node(Prim::Linear, rule, &[x]);
            self.save(&mut node, x);
            node
        });
        let whole = self.dequantised(sizes, base, x.dtype.bytes());
        let out = self.empty(x.shape.with_last(outer), x.dtype, Prim::Linear);
        self.run(Prim::Linear, product([sizes.rows, outer, inner, 1], Pass::Forward, x.dtype));
        self.release_storage(whole);
        self.with_node(out, node)
    }

    /// `dequantize_4bit`: nested scales are made whole first.
    fn dequantised(&mut self, sizes: Product, base: BaseFormat, element_bytes: u64) -> StorageId {
        let weights = sizes.inner * sizes.outer;
        let scales = match base {
            BaseFormat::Nf4Double => {
                let bytes = 4 * weights.div_ceil(BLOCK);
                let narrow = self.allocate(bytes, Prim::Copy);
                // `absmax += offset` is in place; `float()` of fp32 is itself.
                Some(narrow)
            }
            _ => None,
        };
        let whole = self.allocate(weights * element_bytes, Prim::Copy);
        let moved = weights / 2 + weights * element_bytes;
        self.run(Prim::Copy, pointwise(Pointwise::Widen, DType::BF16, moved));
        if let Some(scales) = scales {
            self.release_storage(scales);
        }
        whole
    }
}

/// The gradient of the input; the weight is frozen.
pub(super) fn quantised_linear(
    tape: &mut Tape,
    grad: &Tensor,
    sizes: Product,
    base: BaseFormat,
) -> super::backward::Gradients {
    let whole = tape.dequantised(sizes, base, grad.dtype.bytes());
    let out = tape.empty(sizes.input, grad.dtype, Prim::Linear);
    let Product { rows, inner, outer, .. } = sizes;
    tape.run(Prim::Linear, product([rows, inner, outer, 1], Pass::InputGrad, grad.dtype));
    tape.release_storage(whole);
    one(out)
}
