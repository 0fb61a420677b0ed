//! The kernels of the `flash-attn` packages, called past PyTorch's choice of one.
//!
//! Source: `flash_attn_interface.py` with `mha_fwd` and `mha_bwd` in `csrc/flash_attn/flash_api.cpp`
//! (2), and the same in `hopper/` (3), of Dao-AILab/flash-attention (2.8, 2026); transformers 5.17,
//! `integrations/flash_attention.py`. Heads of a group are not repeated, and without padding no mask
//! is made: causality and windows are arguments.

use crate::clock::AttentionKernel;
use crate::tape::{Attention, AttentionLibrary, Backward, Prim, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};

use super::attention::SdpaInputs;
use super::fused::{Results, attention_work};
use super::reshape::four;

impl Tape {
    /// `flash_attn_func(query, key, value)`; inputs and result have the heads first here.
    ///
    /// Autocast does not know the function: `fa_peft_integration_check` casts what is fp32.
    pub fn flash_attention(&mut self, inputs: SdpaInputs<'_>, library: AttentionLibrary) -> Tensor {
        let query = self.cast_input(inputs.query);
        let key = self.cast_input(inputs.key);
        let value = self.cast_input(inputs.value);
        let [batch, heads, tokens, head_dim] = four(&query);
        let [_, kv_heads, kv_tokens, _] = four(&key);
        let attention = Attention {
            // The kernel of the same speed, by what was measured of either.
            kernel: match library {
                AttentionLibrary::Flash3 => AttentionKernel::Cudnn,
                _ => AttentionKernel::Flash,
            },
            library,
            batch,
            heads,
            kv_heads,
            tokens,
            kv_tokens,
            head_dim,
            value_dim: value.shape.last(),
            causal: inputs.causal,
        };
        let results = self.flash_results(&attention, query.dtype, inputs.dropout);
        self.run(Prim::Sdpa, attention_work(&attention, query.dtype, false));
        let tensors = [&query, &key, &value];
        let node = self.records(&tensors).then(|| {
            let mut node = self.begin_node(Prim::Sdpa, Backward::Sdpa(attention), &tensors);
            let [lse, out, _, seed] = results.kept();
            for kept in tensors.into_iter().map(Some).chain([out, lse, seed]).flatten() {
                self.save(&mut node, kept);
            }
            node
        });
        let out = self.with_node(results.out, node);
        for tensor in [results.lse, results.seed].into_iter().flatten() {
            self.release(tensor);
        }
        for tensor in [query, key, value] {
            self.release(tensor);
        }
        Tensor { layout: Layout::Transposed, ..out }
    }

    fn flash_results(&mut self, attention: &Attention, dtype: DType, dropout: f64) -> Results {
        let &Attention { batch, heads, tokens, value_dim, .. } = attention;
        let out = self.empty(Shape::new([batch, heads, tokens, value_dim]), dtype, Prim::Sdpa);
        let lse = self.empty(Shape::new([batch, heads, tokens]), DType::F32, Prim::Sdpa);
        if attention.library == AttentionLibrary::Flash3 {
            if attention.causal {
                self.scratch(TILE_COUNTER, Prim::Sdpa);
            }
            return Results { lse: Some(lse), out, offset: None, seed: None };
        }
        let partial = self.partial_results(attention, dropout);
        // The random state, made with and without dropout: seed and offset.
        let seed = self.empty(Shape::new([2]), DType::I64, Prim::Sdpa);
        for storage in partial.into_iter().flatten() {
            self.release_storage(storage);
        }
        Results { lse: Some(lse), out, offset: None, seed: Some(seed) }
    }

    /// Version 3's backward.
    pub(super) fn flash3_scratch(&mut self, attention: &Attention) {
        let buffers = flash3_buffers(attention).into_iter();
        let held: Vec<_> = buffers.map(|bytes| self.allocate(bytes, Prim::Sdpa)).collect();
        for storage in held {
            self.release_storage(storage);
        }
    }
}

/// Bytes of row sums, the log-sum-exp to base 2, an fp32 accumulator of the query's gradient and, with
/// grouped heads, of key's and value's, and a counter for each block of rows; rows are whole blocks.
fn flash3_buffers(attention: &Attention) -> Vec<u64> {
    let &Attention { batch, heads, kv_heads, tokens, kv_tokens, .. } = attention;
    let dim = rounded_dim(attention.head_dim.max(attention.value_dim));
    let (rows, columns) = blocks(dim, attention.causal);
    let (tokens, kv_tokens) = (tokens.next_multiple_of(rows), kv_tokens.next_multiple_of(columns));
    let per_row = 4 * batch * heads * tokens;
    let mut buffers = Vec::from([per_row, per_row, per_row * dim]);
    if kv_heads != heads {
        buffers.extend([4 * batch * kv_heads * kv_tokens * dim; 2]);
    }
    buffers.push(4 * (tokens / rows) * batch * heads);
    buffers
}

/// `tile_count_semaphore`, bytes.
const TILE_COUNTER: u64 = 4;

/// `round_up_headdim`.
fn rounded_dim(dim: u64) -> u64 {
    [64, 96, 128, 192].into_iter().find(|&size| dim <= size).unwrap_or(256)
}

/// `kBlockM` and `kBlockN` of the backward on compute capability 9.0.
const fn blocks(dim: u64, causal: bool) -> (u64, u64) {
    match dim {
        ..=64 => (128, 128),
        65..=96 => (64, 128),
        97..=128 => (if causal { 64 } else { 80 }, 128),
        129..=192 => (64, 96),
        _ => (64, 80),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_whole_blocks() {
        let check = |kv_heads, head_dim, causal, expect: &[u64]| {
            let attention = Attention {
                kernel: AttentionKernel::Cudnn,
                library: AttentionLibrary::Flash3,
                batch: 2,
                heads: 32,
                kv_heads,
                tokens: 1000,
                kv_tokens: 1000,
                head_dim,
                value_dim: head_dim,
                causal,
            };
            assert_eq!(flash3_buffers(&attention), expect);
        };
        check(8, 64, true, &[262_144, 262_144, 16_777_216, 4_194_304, 4_194_304, 2048]);
        // 80 rows to a block: 1,040 of them.
        check(32, 128, false, &[266_240, 266_240, 34_078_720, 3328]);
    }
}
