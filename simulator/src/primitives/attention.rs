//! Fused attention: which kernel PyTorch chooses, what it keeps, and the scratch of its backward.

use crate::clock::{AttentionKernel, Issue, Work, WorkClass, attention_flops};
use crate::tape::{Attention, Backward, Device, Prim, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};

use super::reshape::four;
use super::work::{narrow, number};

/// Inputs of fused attention.
#[derive(Clone, Copy, Debug)]
pub struct SdpaInputs<'a> {
    /// `[batch, heads, tokens, head_dim]`.
    pub query: &'a Tensor,
    /// `[batch, kv_heads, tokens, head_dim]`.
    pub key: &'a Tensor,
    /// As key.
    pub value: &'a Tensor,
    /// Dropout probability.
    pub dropout: f64,
}

/// The kernel that `scaled_dot_product_attention` runs on without a mask.
///
/// # Source
///
/// `_select_sdp_backend` (`aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`): cuDNN first on
/// compute capability 9.0 and 10.0, then FlashAttention, then the memory-efficient kernel;
/// the first two take only half types, FlashAttention needs capability 8.0, and head
/// dimensions are bounded (cuDNN 128, 256 with a head dimension that is a multiple of 8; flash 256).
pub fn choose_kernel(dtype: DType, head_dim: u64, device: Device) -> AttentionKernel {
    let (major, minor) = device.capability;
    let prefers_cudnn = matches!((major, minor), (9 | 10, 0));
    if !dtype.is_half() {
        AttentionKernel::Efficient
    } else if prefers_cudnn && head_dim <= 256 && head_dim.is_multiple_of(8) {
        AttentionKernel::Cudnn
    } else if 8 <= major && head_dim <= 256 {
        AttentionKernel::Flash
    } else {
        AttentionKernel::Efficient
    }
}

/// What a fused kernel makes.
struct Results {
    lse: Tensor,
    out: Tensor,
    offset: Option<Tensor>,
    seed: Option<Tensor>,
}

impl Results {
    /// In the order of autograd's names for them: `logsumexp`, `output`, `philox_offset`, `philox_seed`.
    fn kept(&self) -> [Option<&Tensor>; 4] {
        [Some(&self.lse), Some(&self.out), self.offset.as_ref(), self.seed.as_ref()]
    }
}

impl Tape {
    /// `scaled_dot_product_attention(query, key, value, is_causal=True)`; the result's memory is
    /// in tokens-first order.
    ///
    /// # Source
    ///
    /// `_cudnn_attention_forward`, `_flash_attention_forward`, `_efficient_attention_forward` in
    /// `aten/src/ATen/native/transformers/cuda/attention.cu`.
    pub fn sdpa(&mut self, inputs: SdpaInputs<'_>) -> Tensor {
        let value = self.cast_input(inputs.value);
        let key = self.cast_input(inputs.key);
        let query = self.cast_input(inputs.query);
        let [batch, heads, tokens, head_dim] = four(&query);
        let [_, kv_heads, ..] = four(&key);
        let kernel = choose_kernel(query.dtype, head_dim, self.device);
        let attention = Attention { kernel, batch, heads, kv_heads, tokens, head_dim };
        let tensors = [&query, &key, &value];
        let node = self.records(&tensors).then(|| {
            let mut node = self.begin_node(Prim::Sdpa, Backward::Sdpa(attention), &tensors);
            for input in [&key, &query, &value] {
                self.save(&mut node, input);
            }
            node
        });
        let results = self.attention_results(&attention, &query, inputs.dropout);
        self.run(Prim::Sdpa, attention_work(&attention, query.dtype, false));
        let node = node.map(|mut node| {
            for result in results.kept().into_iter().flatten() {
                self.save(&mut node, result);
            }
            node
        });
        let Results { lse, out, offset, seed } = results;
        let out = self.with_node(out, node);
        let others = [Some(lse), seed, offset, Some(query), Some(key), Some(value)];
        for tensor in others.into_iter().flatten() {
            self.release(tensor);
        }
        Tensor { layout: Layout::Transposed, ..out }
    }

    /// Makes the results in each kernel's order.
    fn attention_results(
        &mut self,
        attention: &Attention,
        query: &Tensor,
        dropout: f64,
    ) -> Results {
        let &Attention { kernel, batch, heads, tokens, .. } = attention;
        let lse_shape = Shape::new([batch, heads, tokens]);
        let scalar = |tape: &mut Self| tape.empty(Shape::scalar(), DType::I64, Prim::Sdpa);
        match kernel {
            AttentionKernel::Cudnn => {
                let seed = scalar(self);
                let offset = scalar(self);
                let out = self.empty(query.shape, query.dtype, Prim::Sdpa);
                let lse = self.empty(lse_shape, DType::F32, Prim::Sdpa);
                self.scratch(CUDNN_WORKSPACE, Prim::Sdpa);
                Results { lse, out, offset: Some(offset), seed: Some(seed) }
            }
            AttentionKernel::Flash => {
                let out = self.empty(query.shape, query.dtype, Prim::Sdpa);
                let lse = self.empty(lse_shape, DType::F32, Prim::Sdpa);
                // One tensor of two 64-bit words; the offset is a zero-sized partner without dropout.
                let seed = self.empty(Shape::new([2]), DType::I64, Prim::Sdpa);
                let offset = (0.0 < dropout).then(|| scalar(self));
                Results { lse, out, offset, seed: Some(seed) }
            }
            AttentionKernel::Efficient => {
                let out = self.empty(query.shape, query.dtype, Prim::Sdpa);
                let aligned = Shape::new([batch, heads, tokens.div_ceil(32) * 32]);
                let lse = self.empty(aligned, DType::F32, Prim::Sdpa);
                Results { lse, out, offset: None, seed: None }
            }
        }
    }

    /// Gradients of query, key and value.
    pub(super) fn sdpa_gradients(&mut self, attention: &Attention, dtype: DType) -> [Tensor; 3] {
        let &Attention { kernel, batch, heads, kv_heads, tokens, head_dim } = attention;
        let query = Shape::new([batch, heads, tokens, head_dim]);
        let key = Shape::new([batch, kv_heads, tokens, head_dim]);
        if kernel == AttentionKernel::Flash {
            return self.flash_gradients(attention, dtype);
        }
        let grads = [query, key, key].map(|shape| {
            let grad = self.empty(shape, dtype, Prim::Sdpa);
            Tensor { layout: Layout::Transposed, ..grad }
        });
        let rows = batch * heads * tokens;
        match kernel {
            AttentionKernel::Cudnn => {
                let accumulator = rows * head_dim * 4;
                let expanded =
                    if kv_heads == heads { 0 } else { 2 * rows * head_dim * dtype.bytes() };
                self.scratch(accumulator + rows * 4 + expanded + CUDNN_WORKSPACE, Prim::Sdpa);
            }
            AttentionKernel::Efficient => self.efficient_scratch(attention, dtype),
            AttentionKernel::Flash => unreachable!("handled above"),
        }
        self.run(Prim::Sdpa, attention_work(attention, dtype, true));
        grads
    }

    /// The memory-efficient backward: row sums of `grad · out`, then blocks of query gradients.
    ///
    /// Source: `_efficient_attention_backward` (`attention_backward.cu`) and `workspace_size` in
    /// `mem_eff_attention/kernel_backward.h`: per 64 × 64 block a lock of 16 B and an fp32 buffer.
    fn efficient_scratch(&mut self, attention: &Attention, dtype: DType) {
        let &Attention { batch, heads, tokens, head_dim, .. } = attention;
        let rows = batch * heads * tokens;
        let casts: Vec<_> = if dtype == DType::F32 {
            Vec::new()
        } else {
            (0..2).map(|_| self.allocate(rows * head_dim * 4, Prim::Sdpa)).collect()
        };
        let product = self.allocate(rows * head_dim * 4, Prim::Sdpa);
        for cast in casts {
            self.release_storage(cast);
        }
        let sums = self.allocate(rows * 4, Prim::Sdpa);
        let delta = self.allocate(rows * 4, Prim::Sdpa);
        self.release_storage(sums);
        self.release_storage(product);
        let blocks = tokens.div_ceil(64) * head_dim.div_ceil(64);
        let workspace = self.allocate(batch * heads * blocks * (16 + 64 * 64 * 4), Prim::Sdpa);
        self.release_storage(delta);
        self.release_storage(workspace);
    }

    /// FlashAttention's backward: row sums, an fp32 accumulator of the query's gradient, and one
    /// gradient of key and value per query head when heads are grouped.
    ///
    /// Source: `mha_bwd` in `aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp`:
    /// tokens are rounded up to 128 and head dimensions to 32.
    fn flash_gradients(&mut self, attention: &Attention, dtype: DType) -> [Tensor; 3] {
        let &Attention { batch, heads, kv_heads, tokens, head_dim, .. } = attention;
        let (rounded, dim) = (tokens.div_ceil(128) * 128, head_dim.div_ceil(32) * 32);
        let token_first = |grad: Tensor| Tensor { layout: Layout::Transposed, ..grad };
        let query = Shape::new([batch, heads, tokens, head_dim]);
        let key = Shape::new([batch, kv_heads, tokens, head_dim]);
        let dq = token_first(self.empty(query, dtype, Prim::Sdpa));
        let dk = token_first(self.empty(key, dtype, Prim::Sdpa));
        let dv = token_first(self.empty(key, dtype, Prim::Sdpa));
        let sums = self.allocate(batch * heads * rounded * 4, Prim::Sdpa);
        let accumulator = self.allocate(batch * heads * rounded * dim * 4, Prim::Sdpa);
        let expanded: Vec<_> = if kv_heads == heads {
            Vec::new()
        } else {
            let bytes = batch * heads * tokens * head_dim * dtype.bytes();
            (0..2).map(|_| self.allocate(bytes, Prim::Sdpa)).collect()
        };
        self.run(Prim::Sdpa, attention_work(attention, dtype, true));
        for storage in expanded {
            self.release_storage(storage);
        }
        self.release_storage(accumulator);
        self.release_storage(sums);
        [dq, dk, dv]
    }
}

/// Workspace of cuDNN's forward, as seen in every capture on compute capability 9.0.
const CUDNN_WORKSPACE: u64 = 256;

fn attention_work(attention: &Attention, dtype: DType, backward: bool) -> Work {
    let &Attention { kernel, batch, heads, kv_heads, tokens, head_dim } = attention;
    let small = |size: u64| u16::try_from(size).unwrap_or(u16::MAX);
    let class = WorkClass::Attention {
        batch: narrow(batch),
        q_len: narrow(tokens),
        kv_len: narrow(tokens),
        heads: small(heads),
        kv_heads: small(kv_heads),
        head_dim: small(head_dim),
        causal: true,
        backward,
        kernel,
    };
    let bytes = 2 * batch * (heads + kv_heads) * tokens * head_dim * dtype.bytes();
    let work = Work::sized(class, number(dtype), bytes, Issue::Python);
    Work { flops: attention_flops(class), ..work }
}
