//! Nominal time of a matrix product or convolution: roofline with tile and wave quantisation.

use super::rates::Rates;
use super::work::{Gemm, Number, WorkClass};

/// An output tile and the share of the multiprocessor's best rate that it reaches.
struct Tile {
    rows: f64,
    cols: f64,
    share: f64,
}

/// Tiles that cuBLAS chooses among. Sizes: NVIDIA "Matrix multiplication background user's guide"
/// (2023-02), section 3.1, which also says that larger tiles are more efficient; the shares are
/// general: a tile's loads for each FLOP grow as `1/rows + 1/cols`, so 128×128 loads 1.33 times and
/// 64×64 2.67 times what 256×128 does.
const TILES: [Tile; 7] = [
    Tile { rows: 256.0, cols: 128.0, share: 1.0 },
    Tile { rows: 128.0, cols: 256.0, share: 1.0 },
    Tile { rows: 128.0, cols: 128.0, share: 0.95 },
    Tile { rows: 256.0, cols: 64.0, share: 0.85 },
    Tile { rows: 128.0, cols: 64.0, share: 0.80 },
    Tile { rows: 64.0, cols: 128.0, share: 0.80 },
    Tile { rows: 64.0, cols: 64.0, share: 0.60 },
];

/// Ways to split the reduction when the output has too few tiles for the device.
const SPLITS: [f64; 6] = [1.0, 2.0, 3.0, 4.0, 8.0, 16.0];

/// Shortest part of a split reduction.
const SPLIT_LENGTH: f64 = 256.0;

/// Reduction steps lost to filling the pipeline of a tile.
const PIPELINE_FILL: f64 = 64.0;

/// Launch to first instruction, and the last block's drain, s. An empty kernel takes 1.5 to 2 µs
/// back to back on V100 to H100 (general; te42kyfo/gpu-benches small-kernels, read 2026-11).
const RAMP: f64 = 1.5e-6;

/// What a second kernel (or semaphore) that adds the parts of a split reduction takes, s.
const SPLIT_RAMP: f64 = 1.0e-6;

/// Share of a search's best rate that an average large shape sustains under the power limit. The
/// best shapes are searched on short runs; `SimuMax` (MooreThreads/SimuMax @4dcaae51) records 45–80 %
/// of the datasheet over 183 training shapes on A100 where the best is 81 %.
const SUSTAINED: f64 = 0.92;

/// Share of the datasheet's memory bandwidth that a stream sustains: 0.90 on NVIDIA HBM
/// (V100 triad 91–92 %, H200 triad 91 %; te42kyfo/gpu-benches and `BabelStream`, read 2026-08).
pub(super) const STREAM: f64 = 0.90;

/// Seconds of a matrix product.
///
/// For every tile and split: `waves · tile time`, with `waves = ⌈tiles·split·batch / SMs⌉` and tile
/// time = 2·rows·cols·(k/split + fill) / (rate of one SM · share); joined with the memory time
/// `bytes / bandwidth` by the 4-norm, a maximum with a soft corner; the fastest tile wins, as
/// cuBLAS's heuristic means to choose.
pub(super) fn matmul_seconds(rates: &Rates, gemm: Gemm, number: Number, bytes: u64) -> f64 {
    let (m, n) = (f64::from(gemm.m), f64::from(gemm.n));
    let (k, batch) = (f64::from(gemm.k), f64::from(gemm.batch));
    let rate = rates.matrix(number) * rates.matrix_share(number) * SUSTAINED / rates.processors;
    let mut best = f64::INFINITY;
    for tile in &TILES {
        let tiles = libm::ceil(m / tile.rows) * libm::ceil(n / tile.cols) * batch;
        for split in SPLITS {
            let length = k / split;
            if split > 1.0 && (length < SPLIT_LENGTH || tiles > rates.processors) {
                break;
            }
            let work = 2.0 * tile.rows * tile.cols * (length + PIPELINE_FILL);
            let waves = waves(tiles * split, rates.processors);
            let compute = waves * work / (rate * tile.share);
            let partials = if split > 1.0 { 2.0 * 4.0 * m * n * batch * split } else { 0.0 };
            let memory = (as_f64(bytes) + partials) / (rates.memory * STREAM);
            let ramp = if split > 1.0 { RAMP + SPLIT_RAMP } else { RAMP };
            best = best.min(soft_max(compute, memory) + ramp);
        }
    }
    best
}

/// Channels per group below which a convolution does not use the matrix units.
const DEPTHWISE: u16 = 16;

/// Seconds of a convolution: the implicit product that cuDNN's kernels compute, per group.
///
/// Output pixels × output channels, reduction over input channels × kernel area. Channels-first
/// data is first transposed and then transposed back, unless the kernel is 1 × 1 (cuDNN's
/// tensor-core kernels are channels-last: cuDNN developer guide, "tensor layouts", 2024).
/// Depth-wise kernels stream, and compute on the vector units at a quarter of their rate.
pub(super) fn convolution_seconds(
    rates: &Rates,
    class: WorkClass,
    number: Number,
    bytes: u64,
) -> f64 {
    let WorkClass::Convolution { channels_last, groups, in_channels, kernel_height, .. } = class
    else {
        return 0.0;
    };
    let Some(gemm) = implicit_gemm(class) else { return 0.0 };
    let stream = as_f64(bytes) / (rates.memory * STREAM);
    if groups > 1 && in_channels / groups < DEPTHWISE {
        return RAMP + stream + as_f64(gemm.flops()) / (0.25 * rates.vector);
    }
    let product = matmul_seconds(rates, gemm, number, bytes);
    if channels_last || kernel_height == 1 {
        return product;
    }
    product + 2.0 * stream / TRANSPOSE + 2.0 * RAMP
}

/// Share of the streaming bandwidth that a transposing copy reaches (general: one side is strided).
const TRANSPOSE: f64 = 0.75;

/// The product that a convolution is, one per group.
pub(super) fn implicit_gemm(class: WorkClass) -> Option<Gemm> {
    let WorkClass::Convolution {
        batch,
        in_channels,
        out_channels,
        out_height,
        out_width,
        groups,
        kernel_height,
        kernel_width,
        pass,
        ..
    } = class
    else {
        return None;
    };
    let groups = u32::from(groups).max(1);
    let pixels = batch * u32::from(out_height) * u32::from(out_width);
    let outputs = u32::from(out_channels) / groups;
    let window =
        u32::from(in_channels) / groups * u32::from(kernel_height) * u32::from(kernel_width);
    let (m, n, k) = match pass {
        super::work::Pass::Forward => (pixels, outputs, window),
        super::work::Pass::InputGrad => (pixels, window, outputs),
        super::work::Pass::WeightGrad => (outputs, window, pixels),
    };
    Some(Gemm { m, n, k, batch: groups })
}

/// Waves of thread blocks; the fraction itself where the number of processors is unknown.
pub(super) fn waves(blocks: f64, processors: f64) -> f64 {
    if processors > 1.0 { libm::ceil(blocks / processors) } else { blocks }
}

/// `(a⁴ + b⁴)^¼`: a maximum whose corner is soft, since load and arithmetic overlap imperfectly.
pub(super) fn soft_max(a: f64, b: f64) -> f64 {
    let (a, b) = (a * a, b * b);
    (a * a + b * b).sqrt().sqrt()
}

/// Bytes or FLOPs as a float; exact below 2⁵³.
#[expect(clippy::cast_precision_loss, reason = "a rate needs far less than 53 bits")]
pub(super) fn as_f64(count: u64) -> f64 {
    count as f64
}
