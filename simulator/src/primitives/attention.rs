//! `scaled_dot_product_attention`: which kernel PyTorch chooses, and the composite it falls back to.

use crate::clock::{AttentionKernel, Pointwise};
use crate::tape::{Attention, Backward, Device, Prim, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};

use super::fused::attention_work;
use super::reshape::four;
use super::work::pointwise;

/// Inputs of attention.
#[derive(Clone, Copy, Debug)]
pub struct SdpaInputs<'a> {
    /// `[batch, heads, tokens, head_dim]`.
    pub query: &'a Tensor,
    /// `[batch, kv_heads, tokens, head_dim]`.
    pub key: &'a Tensor,
    /// `[batch, kv_heads, tokens, value_dim]`.
    pub value: &'a Tensor,
    /// Boolean mask `[batch, 1, tokens, tokens]`.
    pub mask: Option<&'a Tensor>,
    /// Whether a token sees only itself and those before it (`is_causal`); never with a mask.
    pub causal: bool,
    /// Dropout probability.
    pub dropout: f64,
}

/// What the choice of a kernel depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelQuestion {
    /// Element type of the inputs.
    pub dtype: DType,
    /// Elements per query and key head.
    pub head_dim: u64,
    /// Elements per value head.
    pub value_dim: u64,
    /// Whether several query heads share a key head (`enable_gqa`).
    pub grouped: bool,
    /// Whether there is a mask.
    pub masked: bool,
    /// The machine.
    pub device: Device,
}

/// The fused kernel that runs, or `None` for the composite in primitives.
///
/// # Source
///
/// `_select_sdp_backend` (`aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`) and what runs on an
/// H200: cuDNN first on compute capability 9.0 and 10.0 (half types, head dimension a multiple of 8 up to
/// 256), then `FlashAttention` (half types, capability 8.0, head dimension up to 256, no mask), then the
/// memory-efficient kernel (no grouped heads, rows of a multiple of 16 bytes).
pub fn choose_kernel(question: KernelQuestion) -> Option<AttentionKernel> {
    let KernelQuestion { dtype, head_dim, value_dim, grouped, masked, device } = question;
    let (major, minor) = device.capability;
    let dims = [head_dim, value_dim];
    let aligned = dims.iter().all(|dim| dim.is_multiple_of(8) && *dim <= 256);
    let in_words = dims.iter().all(|dim| (dim * dtype.bytes()).is_multiple_of(16));
    let efficient = (!grouped && in_words).then_some(AttentionKernel::Efficient);
    if !dtype.is_half() {
        efficient
    } else if matches!((major, minor), (9 | 10, 0)) && aligned {
        Some(AttentionKernel::Cudnn)
    } else if 8 <= major && head_dim <= 256 && value_dim == head_dim && !masked {
        Some(AttentionKernel::Flash)
    } else {
        efficient
    }
}

impl Tape {
    /// `scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)`.
    pub fn sdpa(&mut self, inputs: SdpaInputs<'_>) -> Tensor {
        let value = self.cast_input(inputs.value);
        let key = self.cast_input(inputs.key);
        let query = self.cast_input(inputs.query);
        let [batch, heads, tokens, head_dim] = four(&query);
        let [_, kv_heads, ..] = four(&key);
        let value_dim = value.shape.last();
        let kernel = choose_kernel(KernelQuestion {
            dtype: query.dtype,
            head_dim,
            value_dim,
            grouped: heads != kv_heads,
            masked: inputs.mask.is_some(),
            device: self.device,
        });
        let out = if let Some(kernel) = kernel {
            let causal = inputs.causal;
            let attention =
                Attention { kernel, batch, heads, kv_heads, tokens, head_dim, value_dim, causal };
            self.fused_attention(&attention, [&query, &key, &value], inputs)
        } else {
            self.composite_attention([&query, &key, &value], inputs)
        };
        for tensor in [query, key, value] {
            self.release(tensor);
        }
        out
    }

    /// One fused kernel; its result's memory is in tokens-first order.
    ///
    /// # Source
    ///
    /// `_cudnn_attention_forward`, `_flash_attention_forward`, `_efficient_attention_forward` in
    /// `aten/src/ATen/native/transformers/cuda/attention.cu`. What they keep goes by its names:
    /// mask, key, query, value, `logsumexp`, `output`, offset, seed.
    fn fused_attention(
        &mut self,
        attention: &Attention,
        tensors: [&Tensor; 3],
        inputs: SdpaInputs<'_>,
    ) -> Tensor {
        let [query, key, value] = tensors;
        let mut bias = inputs.mask.map(|mask| self.additive_mask(mask, query.dtype));
        if attention.kernel == AttentionKernel::Efficient {
            bias = bias.map(|bias| self.aligned_bias(bias));
        }
        let node = self.records(&tensors).then(|| {
            let mut node = self.begin_node(Prim::Sdpa, Backward::Sdpa(*attention), &tensors);
            for input in bias.iter().chain([key, query, value]) {
                self.save(&mut node, input);
            }
            node
        });
        let results = self.fused_results(attention, query, inputs.dropout, node.is_some());
        self.run(Prim::Sdpa, attention_work(attention, query.dtype, false));
        let node = node.map(|mut node| {
            for result in results.kept().into_iter().flatten() {
                self.save(&mut node, result);
            }
            node
        });
        let out = self.with_node(results.out, node);
        let others = [results.lse, results.seed, results.offset, bias];
        for tensor in others.into_iter().flatten() {
            self.release(tensor);
        }
        // Results of cuDNN's and flash kernels have the query's memory order.
        let like_query =
            query.layout == Layout::Contiguous && attention.kernel != AttentionKernel::Efficient;
        let layout = if like_query { Layout::Contiguous } else { Layout::Transposed };
        Tensor { layout, ..out }
    }

    /// `convert_boolean_attn_mask`: zero and minus infinity by `where`.
    fn additive_mask(&mut self, mask: &Tensor, dtype: DType) -> Tensor {
        let zero = self.helper(Shape::scalar(), dtype, Prim::Mask);
        let infinity = self.helper(Shape::scalar(), dtype, Prim::Mask);
        let bias = self.helper(mask.shape, dtype, Prim::Mask);
        self.release(infinity);
        self.release(zero);
        bias
    }

    /// `preprocess_mask` (`aten/src/ATen/native/transformers/attention.cpp`): the memory-efficient kernel
    /// reads rows of a multiple of eight elements, and others are padded to that.
    fn aligned_bias(&mut self, bias: Tensor) -> Tensor {
        const ALIGNMENT: u64 = 8;
        let columns = bias.shape.last();
        if columns.is_multiple_of(ALIGNMENT) {
            return bias;
        }
        let padded = bias.shape.with_last(columns.next_multiple_of(ALIGNMENT));
        let out = self.helper(padded, bias.dtype, Prim::Mask);
        self.release(bias);
        out
    }

    /// The composite: scaled query and key, products, mask, softmax, products.
    ///
    /// Source: `_scaled_dot_product_attention_math` in `aten/src/ATen/native/transformers/attention.cpp`;
    /// half types are computed in fp32 (`allow_fp16_bf16_reduction_math_sdp` is off).
    fn composite_attention(&mut self, tensors: [&Tensor; 3], inputs: SdpaInputs<'_>) -> Tensor {
        let dtype = tensors[0].dtype;
        let autocast = self.autocast();
        self.set_autocast(None);
        let [query, key, value] = tensors.map(|tensor| self.cast(tensor, DType::F32));
        let [_, heads, tokens, _] = four(&query);
        let groups = heads / four(&key)[1];
        let scaled_query = self.mul_scalar(&query);
        let bias = if let Some(mask) = inputs.mask {
            Some(self.additive_mask(mask, DType::F32))
        } else if inputs.causal {
            let ones = self.helper(Shape::new([1, 1, tokens, tokens]), DType::Bool, Prim::Mask);
            let lower = self.helper(ones.shape, DType::Bool, Prim::Mask);
            self.release(ones);
            let bias = self.additive_mask(&lower, DType::F32);
            self.release(lower);
            Some(bias)
        } else {
            None
        };
        let expanded_key = self.repeat_interleave(&key, groups);
        let expanded_value = self.repeat_interleave(&value, groups);
        let scaled_key = self.mul_scalar(&expanded_key);
        let products = self.bmm(&scaled_query, &scaled_key, true);
        if bias.is_some() {
            self.run(Prim::Add, pointwise(Pointwise::Binary, DType::F32, 2 * products.bytes()));
        }
        self.release(scaled_key);
        let weights = self.safe_softmax(&products);
        self.release(products);
        let dropped = self.dropout(&weights, inputs.dropout);
        self.release(weights);
        let out = self.bmm(&dropped, &expanded_value, false);
        let locals = [dropped, expanded_value, expanded_key, scaled_query];
        for tensor in locals.into_iter().chain(bias) {
            self.release(tensor);
        }
        let result = self.cast(&out, dtype);
        for tensor in [out, query, key, value] {
            self.release(tensor);
        }
        self.set_autocast(autocast);
        result
    }

    /// `_safe_softmax`: rows that are masked out whole become zero, in place.
    fn safe_softmax(&mut self, x: &Tensor) -> Tensor {
        let out = self.softmax(x, x.dtype);
        let masked = self.helper(x.shape, DType::Bool, Prim::Softmax);
        let rows = self.helper(x.shape.with_last(1), DType::Bool, Prim::Softmax);
        let zero = self.helper(Shape::scalar(), x.dtype, Prim::Softmax);
        for tensor in [zero, rows, masked] {
            self.release(tensor);
        }
        out
    }
}
