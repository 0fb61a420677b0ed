//! How large a question may be.
//!
//! Each number has a range that no real job leaves; together they keep every product within 64
//! bits and the work of a simulation within seconds.

use core::ops::RangeInclusive;

/// Sequences per forward pass.
pub const MICRO_BATCH: RangeInclusive<u64> = 1..=65_536;
/// Tokens per sequence.
pub const SEQ_LEN: RangeInclusive<u64> = 1..=16_777_216;
/// Forward and backward passes per optimizer step.
pub const GRAD_ACCUM: RangeInclusive<u64> = 1..=4_096;
/// GPUs of a job.
pub const GPU_COUNT: RangeInclusive<u64> = 1..=1_048_576;
/// Memory sizes, bytes.
pub const MEMORY_BYTES: RangeInclusive<u64> = 0..=1 << 53;
/// SGD's momentum; 1 itself would never forget.
pub const MOMENTUM: RangeInclusive<f64> = 0.0..=0.999_999;
/// Probability of dropping an element; 1 would drop everything.
pub const DROPOUT: RangeInclusive<f64> = 0.0..=0.999_999;

/// Sizes of buckets, MiB.
pub const BUCKET_MB: RangeInclusive<u64> = 1..=1_048_576;

/// Sizes of `DeepSpeed`'s buckets and thresholds, elements.
pub const ZERO_ELEMENTS: RangeInclusive<u64> = 0..=1 << 46;

/// Inner size of an adapter.
pub const ADAPTER_RANK: RangeInclusive<u64> = 1..=65_536;

/// Repeated layers.
pub const LAYERS: RangeInclusive<u64> = 1..=2_000;
/// Width of the residual stream, and of the MLP.
pub const WIDTH: RangeInclusive<u64> = 1..=1_048_576;
/// Attention heads.
pub const HEADS: RangeInclusive<u64> = 1..=65_536;
/// Width of one head.
pub const HEAD_DIM: RangeInclusive<u64> = 1..=65_536;
/// Tokens of the vocabulary.
pub const VOCAB: RangeInclusive<u64> = 1..=16_777_216;
/// Pixels a side of an image or a patch.
pub const IMAGE_SIDE: RangeInclusive<u64> = 1..=65_536;
/// Positions of the model.
pub const POSITIONS: RangeInclusive<u64> = 1..=1 << 40;

/// Most layer passes in a step: layers × `grad_accum`. Each is about 300 events.
pub const LAYER_PASSES_MAX: u64 = 16_384;
/// Most chunks of a step that a loss goes over, each about ten events.
pub const LOSS_CHUNKS_MAX: u64 = 16_384;
/// Tokens of a chunk (`chunked_cross_entropy`).
pub const LOSS_CHUNK: u64 = 128;
/// Most elements that all tensors of a step may add up to, estimated from above (2⁵⁹: 2⁶² bytes
/// of 8-byte elements), so that no sum over events leaves 64 bits.
pub const STEP_ELEMENTS_MAX: u128 = 1 << 59;
/// Most parameters of a model (2⁴⁶, 7 × 10¹³).
pub const PARAMETERS_MAX: u128 = 1 << 46;
