//! Nominal time of fused attention.

use super::gemm::{STREAM, as_f64, soft_max, waves};
use super::rates::Rates;
use super::work::{AttentionKernel, Number, Work, WorkClass};

/// Query rows of one thread block, and keys of one step (64 to 192 are used; 128 is the middle).
const TILE: f64 = 128.0;

/// Launch, first loads, last block's drain, s.
const RAMP: f64 = 3.0e-6;

/// Share of the dense matrix rate that a kernel reaches on long sequences, forward and backward.
///
/// `FlashAttention`-2 on A100: up to 73 % forward, 63 % backward, typically 0.65 and 0.55 (arXiv
/// 2307.08691, 2023-07). On Hopper the same kernel reaches 35 % (arXiv 2407.08608, 2024-07, abstract),
/// while cuDNN's and `FlashAttention`-3 reach 65–75 % forward and 50–60 % backward (same, figures 5–7).
/// The memory-efficient kernel on A100: about half of `FlashAttention`-2 (2307.08691, figure 4); it
/// uses the matrix units of the generation before on Hopper, which reach about 0.6 of the rate.
fn shares(kernel: AttentionKernel, asynchronous: bool) -> (f64, f64) {
    match (kernel, asynchronous) {
        (AttentionKernel::Flash, false) => (0.65, 0.55),
        (AttentionKernel::Flash, true) => (0.35, 0.30),
        (AttentionKernel::Cudnn, false) => (0.60, 0.55),
        (AttentionKernel::Cudnn, true) => (0.65, 0.50),
        (AttentionKernel::Efficient, false) => (0.35, 0.25),
        (AttentionKernel::Efficient, true) => (0.28, 0.20),
    }
}

/// Seconds of a fused attention kernel: quantised FLOPs / rate, against bytes / bandwidth.
///
/// FLOPs are those of the tiles that run: query rows and keys padded to 128; every block of rows
/// pays one tile of keys to start and finish; a causal block sees half of the keys, half a tile
/// more at the diagonal, which is computed whole, and as much again for masking it. Blocks are
/// spread over the multiprocessors in waves (a last, partial wave counts by half, since two blocks
/// share a multiprocessor). Heads of 64 channels reach 0.8 of the rate of 128 (softmax weighs twice
/// as much beside half the product; 2307.08691, figure 4). The memory-efficient kernel computes
/// fp32 products as three TF32 ones (`OpMultiplyAddFastF32` in its `DefaultGemmType`, 2025).
pub(super) fn attention_seconds(rates: &Rates, work: &Work) -> f64 {
    let WorkClass::Attention {
        batch,
        q_len,
        kv_len,
        heads,
        head_dim,
        causal,
        backward,
        kernel,
        ..
    } = work.class
    else {
        return 0.0;
    };
    let batch_heads = f64::from(batch) * f64::from(heads);
    let tiles = libm::ceil(f64::from(q_len) / TILE);
    let blocks = tiles * batch_heads;
    let keys = libm::ceil(f64::from(kv_len) / TILE) * TILE;
    let keys = if causal { keys / 2.0 + 2.0 * TILE } else { keys + TILE };
    let products = if backward { 5.0 } else { 2.0 };
    let thrice =
        if kernel == AttentionKernel::Efficient && work.number == Number::F32 { 3.0 } else { 1.0 };
    let flops = 2.0 * products * thrice * blocks * TILE * keys * f64::from(head_dim);
    let width = if head_dim <= 64 { 0.8 } else { 1.0 };
    let (forward_share, backward_share) = shares(kernel, rates.generation.asynchronous);
    let share = if backward { backward_share } else { forward_share };
    let rate = rates.matrix(work.number) * share * width;
    let quantised = (waves(blocks, rates.processors) * rates.processors / blocks).min(8.0);
    let compute = flops * (1.0 + quantised) / 2.0 / rate;
    let memory = as_f64(work.bytes) / (rates.memory * STREAM);
    let ramps = if backward && kernel != AttentionKernel::Efficient { 3.0 } else { 1.0 };
    soft_max(compute, memory) + ramps * RAMP
}
