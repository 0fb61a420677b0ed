//! `scaled_dot_product_attention`: which kernel PyTorch chooses, and the composite it falls back to.

use crate::clock::AttentionKernel;
use crate::tape::{Attention, AttentionLibrary, Backward, Device, Prim, Source, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};

use super::fused::attention_work;
use super::reshape::four;

/// Inputs of attention.
#[derive(Clone, Copy, Debug)]
pub struct SdpaInputs<'a> {
    /// `[batch, heads, tokens, head_dim]`.
    pub query: &'a Tensor,
    /// `[batch, kv_heads, tokens, head_dim]`.
    pub key: &'a Tensor,
    /// `[batch, kv_heads, tokens, value_dim]`.
    pub value: &'a Tensor,
    /// A boolean mask, or a bias that is added to the scores: `[1 or batch, 1 or heads, tokens, kv_tokens]`.
    pub mask: Option<&'a Tensor>,
    /// Whether a token sees only itself and those before it (`is_causal`); never with a mask.
    pub causal: bool,
    /// Dropout probability.
    pub dropout: f64,
}

/// What a kernel must know of a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskKind {
    /// There is none.
    None,
    /// It is only read.
    Read,
    /// A gradient of it is wanted, which cuDNN's kernel does not make.
    Trained,
    /// Its rows are not adjacent in memory, which every fused kernel asks for
    /// (`check_last_dim_stride_equals_1_dense` in `sdp_utils_cpp.h`).
    Apart,
}

impl MaskKind {
    fn of(mask: Option<&Tensor>) -> Self {
        match mask {
            None => Self::None,
            Some(mask) if mask.layout == Layout::HeadsLast => Self::Apart,
            Some(mask) if mask.requires_grad() => Self::Trained,
            Some(_) => Self::Read,
        }
    }
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
    /// The mask.
    pub mask: MaskKind,
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
/// memory-efficient kernel (no grouped heads, rows of a multiple of 16 bytes; bf16 from capability 8.0 on,
/// `less_than_sm80_mem_efficient_dtypes`).
pub fn choose_kernel(question: KernelQuestion) -> Option<AttentionKernel> {
    let KernelQuestion { dtype, head_dim, value_dim, grouped, mask, device } = question;
    let (major, minor) = device.capability;
    let dims = [head_dim, value_dim];
    let aligned = dims.iter().all(|dim| dim.is_multiple_of(8) && *dim <= 256);
    let in_words = dims.iter().all(|dim| (dim * dtype.bytes()).is_multiple_of(16));
    let known = dtype != DType::BF16 || 8 <= major;
    let efficient = (!grouped && in_words && known).then_some(AttentionKernel::Efficient);
    if mask == MaskKind::Apart {
        None
    } else if !dtype.is_half() {
        efficient
    } else if matches!((major, minor), (9 | 10, 0)) && aligned && mask != MaskKind::Trained {
        Some(AttentionKernel::Cudnn)
    } else if 8 <= major && head_dim <= 256 && value_dim == head_dim && mask == MaskKind::None {
        Some(AttentionKernel::Flash)
    } else {
        efficient
    }
}

impl Tape {
    /// `scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)`.
    pub fn sdpa(&mut self, inputs: SdpaInputs<'_>) -> Tensor {
        self.attended(inputs, true)
    }

    /// The same with one head of key and value for all queries and without `enable_gqa`: no fused kernel
    /// takes it (`check_batch_size_and_num_heads_dense`), and the products see it as many.
    pub fn sdpa_of_one_head(&mut self, inputs: SdpaInputs<'_>) -> Tensor {
        self.attended(inputs, false)
    }

    fn attended(&mut self, inputs: SdpaInputs<'_>, groups: bool) -> Tensor {
        // Autocast casts the arguments from the last to the first, a boolean mask stays.
        let mask = inputs.mask.map(|mask| match mask.dtype {
            DType::Bool => self.share(mask),
            _ => self.cast_input(mask),
        });
        let inputs = SdpaInputs { mask: mask.as_ref(), ..inputs };
        let value = self.cast_input(inputs.value);
        let key = self.cast_input(inputs.key);
        let query = self.cast_input(inputs.query);
        let [batch, heads, tokens, head_dim] = four(&query);
        let [_, kv_heads, kv_tokens, _] = four(&key);
        let value_dim = value.shape.last();
        // A traced program gets the mask of a bidirectional model, one column seen as many.
        let apart = self.traced() && mask.is_none() && !inputs.causal;
        let kind = if apart { MaskKind::Apart } else { MaskKind::of(mask.as_ref()) };
        let kernel = choose_kernel(KernelQuestion {
            dtype: query.dtype,
            head_dim,
            value_dim,
            grouped: heads != kv_heads,
            mask: kind,
            device: self.device,
        });
        let out = if let Some(kernel) = kernel.filter(|_| groups) {
            let causal = inputs.causal;
            let attention = Attention {
                kernel,
                library: AttentionLibrary::PyTorch,
                batch,
                heads,
                kv_heads,
                tokens,
                kv_tokens,
                head_dim,
                value_dim,
                causal,
            };
            self.fused_attention(&attention, [&query, &key, &value], inputs)
        } else {
            self.composite_attention([&query, &key, &value], inputs, groups)
        };
        for tensor in [query, key, value].into_iter().chain(mask) {
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
        let bias = inputs.mask.map(|mask| self.bias(mask, query.dtype));
        let bias = bias.map(|bias| self.expanded_bias(bias, attention));
        let node = self.records(&tensors).then(|| {
            let inputs: Vec<&Tensor> = tensors.into_iter().chain(&bias).collect();
            let mut node = self.begin_node(Prim::Sdpa, Backward::Sdpa(*attention), &inputs);
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

    /// `preprocess_mask`: the memory-efficient kernel gets the bias of every sequence and head, in rows
    /// of a multiple of 8 elements.
    fn expanded_bias(&mut self, bias: Tensor, attention: &Attention) -> Tensor {
        let &Attention { kernel, batch, heads, tokens, kv_tokens, .. } = attention;
        if kernel != AttentionKernel::Efficient {
            // The others broadcast it themselves, and make no gradient of it.
            return Tensor { source: Source::None, ..bias };
        }
        let padded = if kv_tokens.is_multiple_of(8) { bias } else { self.padded_rows(bias) };
        let expanded = self.repeated(&padded, Shape::new([batch, heads, tokens, kv_tokens]));
        self.release(padded);
        expanded
    }

    /// `pad_bias`: padded to a multiple of 8, and a slice of the former size.
    fn padded_rows(&mut self, bias: Tensor) -> Tensor {
        let columns = bias.shape.last();
        let wide = bias.shape.with_last(columns.next_multiple_of(8));
        let rule = Backward::Unpad { input: bias.shape };
        let node = self.records(&[&bias]).then(|| self.begin_node(Prim::Mask, rule, &[&bias]));
        let padded = self.helper(wide, bias.dtype, Prim::Mask);
        let padded = self.with_node(padded, node);
        self.release(bias);
        let rows = self.slice_last(&padded, columns);
        self.release(padded);
        rows
    }

    /// `convert_boolean_attn_mask`: a mask of another type is added as it is.
    fn bias(&mut self, mask: &Tensor, dtype: DType) -> Tensor {
        if mask.dtype == DType::Bool { self.additive_mask(mask, dtype) } else { self.share(mask) }
    }

    /// Zero and minus infinity by `where`.
    fn additive_mask(&mut self, mask: &Tensor, dtype: DType) -> Tensor {
        let zero = self.helper(Shape::scalar(), dtype, Prim::Mask);
        let infinity = self.helper(Shape::scalar(), dtype, Prim::Mask);
        let bias = self.helper(mask.shape, dtype, Prim::Mask);
        self.release(infinity);
        self.release(zero);
        bias
    }

    /// The composite: scaled query and key, products, mask, softmax, products.
    ///
    /// Source: `_scaled_dot_product_attention_math` in `aten/src/ATen/native/transformers/attention.cpp`;
    /// half types are computed in fp32 (`allow_fp16_bf16_reduction_math_sdp` is off).
    fn composite_attention(
        &mut self,
        tensors: [&Tensor; 3],
        inputs: SdpaInputs<'_>,
        groups: bool,
    ) -> Tensor {
        let dtype = tensors[0].dtype;
        let autocast = self.autocast();
        self.set_autocast(None);
        let given = inputs.mask.map(|mask| self.bias(mask, dtype));
        let [query, key, value] = tensors.map(|tensor| self.cast(tensor, DType::F32));
        let [_, heads, tokens, _] = four(&query);
        let kv_tokens = four(&key)[2];
        let groups = if groups { heads / four(&key)[1] } else { 1 };
        let scaled_query = self.mul_scalar(&query);
        let bias = if given.is_some() {
            given
        } else if inputs.causal {
            let ones = self.helper(Shape::new([1, 1, tokens, kv_tokens]), DType::Bool, Prim::Mask);
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
        let mut products = self.bmm(&scaled_query, &scaled_key, true);
        self.release(scaled_key);
        if let Some(bias) = &bias {
            products = self.add_in_place(products, bias);
        }
        let weights = self.safe_softmax(&products);
        self.release(products);
        let dropped = self.dropout(&weights, inputs.dropout);
        self.release(weights);
        // The weights are returned too, in the inputs' type; C++ makes a tuple from its end.
        let returned =
            (dtype != DType::F32).then(|| self.elementwise(Prim::Copy, &[&dropped], dtype));
        let out = self.bmm(&dropped, &expanded_value, false);
        let result = self.cast(&out, dtype);
        self.release(out);
        let locals = [dropped, expanded_value, expanded_key, scaled_query];
        let inputs = [value, key, query];
        for tensor in locals.into_iter().chain(bias).chain(inputs).chain(returned) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_as_capability_and_type_allow() {
        let check = |dtype, capability, grouped, expect| {
            let device = Device { sm_count: 80, threads_per_sm: 2048, capability };
            let mask = MaskKind::None;
            let question =
                KernelQuestion { dtype, head_dim: 64, value_dim: 64, grouped, mask, device };
            assert_eq!(choose_kernel(question), expect, "{dtype:?} on {capability:?}");
        };
        check(DType::BF16, (9, 0), true, Some(AttentionKernel::Cudnn));
        check(DType::BF16, (8, 0), true, Some(AttentionKernel::Flash));
        check(DType::F16, (7, 5), false, Some(AttentionKernel::Efficient));
        check(DType::BF16, (7, 5), false, None);
        check(DType::F32, (7, 0), false, Some(AttentionKernel::Efficient));
        check(DType::F32, (8, 0), true, None);
    }
}
