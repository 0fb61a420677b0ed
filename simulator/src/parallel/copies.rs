//! Metadata that PyTorch's kernels for many copies at once take along in device memory.
//!
//! # Source
//!
//! `aten/src/ATen/native/cuda/TensorShape.cu`, PyTorch 2.11: `pack_vecs` puts several lists of 64-bit
//! numbers into one tensor.

use crate::tape::Device;

/// Bytes that one block of the kernels copies at once: `BLOCK_SIZE · BYTES_PER_THREAD`.
const TILE: u64 = 128 * 16;
/// Threads of a block.
const BLOCK_SIZE: u64 = 128;

/// Bytes of the metadata of `split_with_sizes_copy` from `[ranks, Σ chunks]` to one tensor for each
/// chunk (`split_with_sizes_copy_out_cuda_contiguous_no_cast`).
///
/// # Formula
///
/// ```text
/// most   = ⌊multiprocessors · threads per multiprocessor / 128⌋ · 2
/// factor = ⌈Σ ⌈chunk / 2048⌉ · ranks / most⌉
/// iters  = ⌈factor / min(⌈√factor⌉, ranks)⌉
/// bytes  = 8 · (3 n + Σ ⌈chunk / (2048 · iters)⌉ + n + 1)      (chunks in bytes, n of them)
/// ```
pub(super) fn split_copy_metadata(chunks: &[u64], ranks: u64, device: &Device) -> u64 {
    let blocks: u64 = chunks.iter().map(|chunk| chunk.div_ceil(TILE)).sum();
    let most = (device.sm_count * device.threads_per_sm / BLOCK_SIZE * 2).max(1);
    let factor = (blocks * ranks).div_ceil(most);
    let root = factor.isqrt();
    let root = if root * root < factor { root + 1 } else { root };
    let iterations = factor.div_ceil(root.min(ranks).max(1)).max(1);
    let blocks: u64 = chunks.iter().map(|chunk| chunk.div_ceil(TILE * iterations)).sum();
    let n = chunks.len() as u64;
    8 * (3 * n + blocks + n + 1)
}

/// Bytes of the metadata of `_chunk_cat` into a row of `chunks` for each rank
/// (`get_chunk_cat_metadata`).
///
/// # Formula
///
/// ```text
/// bytes = 8 · (6 n + 2 + Σ ⌈chunk / 2048⌉)      (padded chunks in bytes of the result, n of them)
/// ```
pub(super) fn chunk_cat_metadata(chunks: &[u64]) -> u64 {
    let blocks: u64 = chunks.iter().map(|chunk| chunk.div_ceil(TILE)).sum();
    8 * (6 * chunks.len() as u64 + 2 + blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A llama layer of width 1024 over four ranks, as `small-fsdp4` shows it.
    #[test]
    fn sizes_are_those_of_a_capture() {
        let elements = [262_144, 65_536, 65_536, 262_144, 720_896, 720_896, 720_896, 256, 256];
        let device = Device { sm_count: 132, threads_per_sm: 2048, capability: (9, 0) };
        assert_eq!(split_copy_metadata(&elements.map(|n| 2 * n), 4, &device), 11_320);
        assert_eq!(chunk_cat_metadata(&elements.map(|n| 4 * n)), 44_496);
    }
}
