//! What the fused attention kernels make, and the scratch they take.
//!
//! Sizes were read off an H200 with torch 2.11 (2026-11-30) by recording the allocator around each
//! kernel for head dimensions 44 to 320; the sources named at each rule give the same numbers.

use crate::clock::{AttentionKernel, Issue, Work, WorkClass, attention_flops};
use crate::tape::{Attention, AttentionLibrary, Device, Prim, StorageId, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};

use super::backward::Gradients;
use super::work::{narrow, number};

/// Workspace of cuDNN's kernels beside their accumulators, bytes.
const CUDNN_WORKSPACE: u64 = 256;

/// What a fused kernel makes.
pub(super) struct Results {
    /// Log-sum-exp of the scores, for backward.
    pub(super) lse: Option<Tensor>,
    pub(super) out: Tensor,
    pub(super) offset: Option<Tensor>,
    pub(super) seed: Option<Tensor>,
}

impl Results {
    /// In the order of autograd's names for them.
    pub(super) fn kept(&self) -> [Option<&Tensor>; 4] {
        [self.lse.as_ref(), Some(&self.out), self.offset.as_ref(), self.seed.as_ref()]
    }
}

impl Tape {
    /// Makes the results in each kernel's order. Where no gradient will flow, cuDNN's and the
    /// memory-efficient kernel leave out the log-sum-exp (`should_compute_logsumexp` in
    /// `aten/src/ATen/native/transformers/attention.cpp`).
    pub(super) fn fused_results(
        &mut self,
        attention: &Attention,
        query: &Tensor,
        dropout: f64,
        records: bool,
    ) -> Results {
        let &Attention { kernel, batch, heads, tokens, .. } = attention;
        let lse_shape = Shape::new([batch, heads, tokens]);
        let result = query.shape.with_last(attention.value_dim);
        let scalar = |tape: &mut Self| tape.empty(Shape::scalar(), DType::I64, Prim::Sdpa);
        match kernel {
            AttentionKernel::Cudnn => {
                let seed = scalar(self);
                let offset = scalar(self);
                let out = self.empty(result, query.dtype, Prim::Sdpa);
                let lse = records.then(|| self.empty(lse_shape, DType::F32, Prim::Sdpa));
                self.scratch(CUDNN_WORKSPACE, Prim::Sdpa);
                Results { lse, out, offset: Some(offset), seed: Some(seed) }
            }
            AttentionKernel::Flash => {
                let out = self.empty(result, query.dtype, Prim::Sdpa);
                let lse = self.empty(lse_shape, DType::F32, Prim::Sdpa);
                let partial = self.partial_results(attention, dropout);
                // The random state is two 64-bit words; its unused partner has one.
                let seed = self.empty(Shape::new([2]), DType::I64, Prim::Sdpa);
                let offset = scalar(self);
                for storage in partial.into_iter().flatten() {
                    self.release_storage(storage);
                }
                Results { lse: Some(lse), out, offset: Some(offset), seed: Some(seed) }
            }
            AttentionKernel::Efficient => {
                let out = self.empty(result, query.dtype, Prim::Sdpa);
                let aligned = Shape::new([batch, heads, tokens.div_ceil(32) * 32]);
                let lse = records.then(|| self.empty(aligned, DType::F32, Prim::Sdpa));
                if query.dtype.is_half() && 128 < attention.value_dim {
                    // An fp32 accumulator of the output.
                    self.scratch(2 * out.bytes(), Prim::Sdpa);
                }
                Results { lse, out, offset: None, seed: None }
            }
        }
    }

    /// Log-sum-exp and result of each part of the keys, where `FlashAttention` splits them.
    pub(super) fn partial_results(
        &mut self,
        attention: &Attention,
        dropout: f64,
    ) -> Option<[StorageId; 2]> {
        let &Attention { batch, heads, tokens, head_dim, .. } = attention;
        let splits = if dropout <= 0.0 { flash_splits(attention, self.device) } else { 1 };
        let rows = batch * heads * tokens;
        (1 < splits).then(|| {
            [rows * 4, rows * flash_dim(head_dim) * 4]
                .map(|bytes| self.allocate(splits * bytes, Prim::Sdpa))
        })
    }

    /// Gradients of query, key and value, and of the bias where one is wanted: the memory-efficient
    /// kernel alone makes it, whole and with rows of a multiple of 16 elements
    /// (`_efficient_attention_backward` in `attention_backward.cu`).
    pub fn fused_gradients(
        &mut self,
        attention: &Attention,
        dtype: DType,
        of_bias: bool,
    ) -> Gradients {
        let &Attention { kernel, batch, heads, kv_heads, tokens, kv_tokens, .. } = attention;
        let &Attention { head_dim, value_dim, .. } = attention;
        let shapes = [
            (heads, tokens, head_dim),
            (kv_heads, kv_tokens, head_dim),
            (kv_heads, kv_tokens, value_dim),
        ];
        let grads = shapes.map(|(heads, tokens, dim)| {
            let grad = self.empty(Shape::new([batch, heads, tokens, dim]), dtype, Prim::Sdpa);
            Tensor { layout: Layout::Transposed, ..grad }
        });
        let of_bias = of_bias.then(|| {
            let row = Shape::new([batch, heads, tokens, kv_tokens.next_multiple_of(16)]);
            let rows = self.empty(row, dtype, Prim::Sdpa);
            Tensor { shape: Shape::new([batch, heads, tokens, kv_tokens]), ..rows }
        });
        match (attention.library, kernel) {
            (AttentionLibrary::Flash3, _) => self.flash3_scratch(attention),
            (_, AttentionKernel::Cudnn) => self.cudnn_scratch(attention, dtype),
            (_, AttentionKernel::Flash) => self.flash_scratch(attention, dtype),
            (_, AttentionKernel::Efficient) => self.efficient_scratch(attention, dtype),
        }
        self.run(Prim::Sdpa, attention_work(attention, dtype, true));
        let [query, key, value] = grads.map(Some);
        [query, key, value, of_bias]
    }

    /// cuDNN's backward: an fp32 accumulator of the query's gradient, row sums, and with grouped heads a
    /// gradient of key and value per query head.
    pub(super) fn cudnn_scratch(&mut self, attention: &Attention, dtype: DType) {
        let &Attention { batch, heads, kv_heads, tokens, kv_tokens, head_dim, .. } = attention;
        let rows = batch * heads * tokens;
        let kv_rows = batch * heads * kv_tokens;
        let expanded = if kv_heads == heads { 0 } else { 2 * kv_rows * head_dim * dtype.bytes() };
        self.scratch(rows * head_dim * 4 + rows * 4 + expanded + CUDNN_WORKSPACE, Prim::Sdpa);
    }

    /// The memory-efficient backward: row sums of `grad · out`, then its workspace.
    ///
    /// Source: `_efficient_attention_backward` (`attention_backward.cu`) and `workspace_size` in
    /// `mem_eff_attention/kernel_backward.h`. In fp32 the product is a tensor of its own.
    fn efficient_scratch(&mut self, attention: &Attention, dtype: DType) {
        let &Attention { batch, heads, tokens, kv_tokens, head_dim, value_dim, .. } = attention;
        let rows = batch * heads * tokens;
        let delta = if dtype == DType::F32 {
            let product = self.allocate(rows * value_dim * 4, Prim::Sdpa);
            let sums = self.allocate(rows * 4, Prim::Sdpa);
            let delta = self.allocate(rows * 4, Prim::Sdpa);
            self.release_storage(sums);
            self.release_storage(product);
            delta
        } else {
            self.allocate(rows * 4, Prim::Sdpa)
        };
        let bytes =
            batch * heads * efficient_workspace([tokens, kv_tokens], [head_dim, value_dim], dtype);
        let workspace = self.allocate(bytes, Prim::Sdpa);
        self.release_storage(delta);
        self.release_storage(workspace);
    }

    /// `FlashAttention`'s backward: row sums, an fp32 accumulator of the query's gradient, and with
    /// grouped heads a gradient of key and value per query head.
    ///
    /// Source: `mha_bwd` in `aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp`:
    /// tokens are rounded up to 128 and head dimensions to 32.
    fn flash_scratch(&mut self, attention: &Attention, dtype: DType) {
        let &Attention { batch, heads, kv_heads, tokens, kv_tokens, head_dim, .. } = attention;
        let (rounded, dim) = (tokens.div_ceil(128) * 128, flash_dim(head_dim));
        let sums = self.allocate(batch * heads * rounded * 4, Prim::Sdpa);
        let accumulator = self.allocate(batch * heads * rounded * dim * 4, Prim::Sdpa);
        if kv_heads != heads {
            let bytes = batch * heads * kv_tokens * head_dim * dtype.bytes();
            let expanded = [(); 2].map(|()| self.allocate(bytes, Prim::Sdpa));
            for storage in expanded {
                self.release_storage(storage);
            }
        }
        self.release_storage(accumulator);
        self.release_storage(sums);
    }
}

/// `head_size_rounded`.
const fn flash_dim(head_dim: u64) -> u64 {
    if head_dim <= 192 { head_dim.next_multiple_of(32) } else { 256 }
}

/// Bytes of the memory-efficient backward's workspace for one sequence and head.
///
/// Blocks of the query's gradient are fp32 buffers with a lock of 16 bytes; above 128 elements per head
/// half types also accumulate key and value gradients in fp32.
fn efficient_workspace([tokens, kv_tokens]: [u64; 2], dims: [u64; 2], dtype: DType) -> u64 {
    const LOCK: u64 = 16;
    let [head_dim, value_dim] = dims;
    let widest = head_dim.max(value_dim);
    let (rows, columns) = match (widest, dtype.is_half()) {
        (..=64, _) => (64, 64),
        (65..=128, true) => (128, 128),
        _ => (128, 64),
    };
    let blocks = tokens.div_ceil(rows) * head_dim.div_ceil(columns);
    let accumulators = if dtype.is_half() && 128 < widest {
        let columns = (head_dim.div_ceil(128) + value_dim.div_ceil(128)) * 128;
        kv_tokens.div_ceil(128) * 128 * columns * 4
    } else {
        0
    };
    blocks * (rows * columns * 4 + LOCK) + accumulators
}

/// Parts into which `FlashAttention` splits the keys when there are too few blocks for the machine.
///
/// Source: `num_splits_heuristic` and `set_params_splitkv` in `flash_attn/flash_api.cpp`.
fn flash_splits(attention: &Attention, device: Device) -> u64 {
    let &Attention { batch, heads, tokens, kv_tokens, head_dim, .. } = attention;
    let block = match head_dim {
        ..=64 => 256,
        65..=128 => 128,
        _ => 64,
    };
    let key_blocks = kv_tokens.div_ceil(block);
    let query_blocks = batch * heads * tokens.div_ceil(64);
    let slots = 2 * device.sm_count;
    if 4 * slots <= 5 * query_blocks {
        return 1;
    }
    let eligible =
        |splits: u64| splits == 1 || key_blocks.div_ceil(splits) != key_blocks.div_ceil(splits - 1);
    // Shares of busy slots, as exact fractions busy / (waves · slots).
    let efficiency = |splits: u64| {
        let busy = query_blocks * splits;
        (busy, busy.div_ceil(slots) * slots)
    };
    let most = 128.min(slots).min(key_blocks);
    let better = |a: (u64, u64), b: (u64, u64)| if a.0 * b.1 < b.0 * a.1 { b } else { a };
    let best = (1..=most).filter(|&splits| eligible(splits)).map(efficiency).reduce(better);
    let Some(best) = best else { return 1 };
    let enough = |(busy, of): (u64, u64)| 85 * best.0 * of <= 100 * busy * best.1;
    (1..=most).find(|&splits| eligible(splits) && enough(efficiency(splits))).unwrap_or(1)
}

pub(super) fn attention_work(attention: &Attention, dtype: DType, backward: bool) -> Work {
    let &Attention { kernel, batch, heads, kv_heads, tokens, kv_tokens, .. } = attention;
    let &Attention { head_dim, causal, .. } = attention;
    let small = |size: u64| u16::try_from(size).unwrap_or(u16::MAX);
    let class = WorkClass::Attention {
        batch: narrow(batch),
        q_len: narrow(tokens),
        kv_len: narrow(kv_tokens),
        heads: small(heads),
        kv_heads: small(kv_heads),
        head_dim: small(head_dim),
        causal,
        backward,
        kernel,
    };
    let rows = heads * tokens + kv_heads * kv_tokens;
    let bytes = 2 * batch * rows * head_dim * dtype.bytes();
    let work = Work::sized(class, number(dtype), bytes, Issue::Python);
    Work { flops: attention_flops(class), ..work }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded on an H200 with torch 2.11 around `scaled_dot_product_attention`, one backend at a time.
    #[test]
    fn workspaces_as_recorded() {
        let check = |tokens, head_dim, dtype, expect: u64| {
            assert_eq!(efficient_workspace([tokens; 2], [head_dim; 2], dtype), expect);
        };
        check(1024, 64, DType::F32, 8_396_800 / 32);
        check(777, 96, DType::F32, 7_343_616 / 16);
        check(1024, 128, DType::F32, 4_196_352 / 8);
        check(512, 320, DType::F32, 2_622_720 / 4);
        check(1024, 64, DType::BF16, 8_396_800 / 32);
        check(777, 96, DType::BF16, 7_341_824 / 16);
        check(1024, 128, DType::BF16, 4_195_328 / 8);
        check(1024, 256, DType::BF16, 25_169_920 / 8);
        check(512, 320, DType::BF16, 8_914_176 / 4);
    }

    #[test]
    fn splits_as_recorded() {
        let device = Device { sm_count: 132, threads_per_sm: 2048, capability: (9, 0) };
        let check = |batch, heads, tokens, head_dim, expect| {
            let kernel = AttentionKernel::Flash;
            let attention = Attention {
                kernel,
                library: AttentionLibrary::PyTorch,
                batch,
                heads,
                kv_heads: heads,
                tokens,
                kv_tokens: tokens,
                head_dim,
                value_dim: head_dim,
                causal: true,
            };
            assert_eq!(flash_splits(&attention, device), expect);
        };
        check(2, 16, 1024, 64, 1);
        check(2, 8, 777, 96, 1);
        check(1, 8, 1024, 256, 2);
    }
}
