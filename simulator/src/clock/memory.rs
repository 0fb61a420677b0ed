//! Nominal time of kernels that are bound by memory or by the vector units.

use super::gemm::{STREAM, as_f64, soft_max};
use super::rates::Rates;
use super::work::{Index, Link, Number, Pointwise, Reduce, Update};

/// Launch to first instruction and drain of a simple kernel, s (see `gemm::RAMP`).
const RAMP: f64 = 1.2e-6;

/// Instructions that a multiprocessor's lane retires in a clock when nothing waits for memory.
/// fp32 rates count two FLOPs for a lane and clock; issue slots lost to address arithmetic,
/// conversion and dependencies leave about 0.6 (general).
const ISSUE: f64 = 0.6;

/// How an element-wise kernel uses the device.
struct Cost {
    /// Instructions per element.
    instructions: f64,
    /// Share of the streaming bandwidth.
    bandwidth: f64,
    /// Bytes moved per byte of the element's type: to count elements from `Work::bytes`.
    streams: f64,
}

/// Instructions by what the loops contain (counts of the CUDA math library's code paths, general):
/// an exponential or a reciprocal takes one of the quarter-rate special units plus scaling, `erf`
/// and `tanh` are polynomials of 20 to 30 terms, Philox-4x32-10 spends 10 rounds for 4 numbers.
/// Widening casts go through the framework's generic kernel, which loads one element at a time
/// (`unrolled_elementwise_kernel` with `LoadWithCast`; narrowing from fp32 has its own vectorised
/// kernel: ATen/native/cuda/Copy.cu, 2025).
fn pointwise_cost(kind: Pointwise) -> Cost {
    let cost = |instructions, bandwidth, streams| Cost { instructions, bandwidth, streams };
    match kind {
        Pointwise::Binary | Pointwise::Narrow => cost(6.0, 1.0, 3.0),
        Pointwise::Unary | Pointwise::Copy => cost(5.0, 1.0, 2.0),
        Pointwise::Silu | Pointwise::Tanh | Pointwise::GeluTanh => cost(20.0, 1.0, 2.0),
        Pointwise::Gelu => cost(25.0, 1.0, 2.0),
        Pointwise::Dropout => cost(32.0, 0.8, 2.5),
        Pointwise::Widen => cost(6.0, 0.5, 3.0),
        Pointwise::Strided => cost(12.0, 0.75, 2.0),
    }
}

/// Seconds of an element-wise kernel: `ramp + max(bytes / bandwidth, instructions / issue rate)`.
pub(super) fn pointwise_seconds(rates: &Rates, kind: Pointwise, number: Number, bytes: u64) -> f64 {
    let cost = pointwise_cost(kind);
    let elements = as_f64(bytes) / (cost.streams * as_f64(number.size()));
    let stream = as_f64(bytes) / (rates.memory * STREAM * cost.bandwidth);
    let issue = elements * cost.instructions / (rates.vector / 2.0 * ISSUE);
    RAMP + soft_max(stream, issue)
}

/// Seconds of a reduction.
///
/// `ramp + (first pass from memory + further passes) / bandwidth`; further passes over a row come
/// from the cache when the rows in flight (two blocks on every multiprocessor) fit into it.
///
/// Passes are those of the framework's kernels (ATen/native/cuda: `SoftMax.cu` reads a row longer
/// than 1,024 three times forward, and its gradient once more backward; `layer_norm_kernel.cu`
/// reads the input twice forward, and both inputs once more backward for the weight's gradient;
/// `Normalization.cuh` reads twice forward and once more backward), 2025.
pub(super) fn reduce_seconds(
    rates: &Rates,
    kind: Reduce,
    number: Number,
    (rows, cols): (u32, u32),
    bytes: u64,
) -> f64 {
    let long = cols > 1024;
    let plane = as_f64(u64::from(rows) * u64::from(cols) * number.size());
    let Pattern { again, ramps, instructions, share } = pattern(kind, long);
    let row = f64::from(cols) * as_f64(number.size());
    let in_flight = 2.0 * rates.processors * row;
    let memory = rates.memory * STREAM * share * parallel_share(rates, kind, rows);
    let again_rate = if in_flight <= rates.cache_bytes { rates.cache.max(memory) } else { memory };
    let stream = as_f64(bytes) / memory + again * plane / again_rate;
    let elements = plane / as_f64(number.size());
    let issue = elements * instructions / (rates.vector / 2.0 * ISSUE);
    ramps * RAMP + soft_max(stream, issue)
}

/// How a reduction goes over its input.
struct Pattern {
    /// Further passes over the input.
    again: f64,
    /// Launches and barriers, in ramps.
    ramps: f64,
    /// Instructions per element.
    instructions: f64,
    /// Share of the streaming bandwidth: barriers between passes leave memory idle.
    share: f64,
}

fn pattern(kind: Reduce, long: bool) -> Pattern {
    let of = |again, ramps, instructions, share| Pattern { again, ramps, instructions, share };
    match kind {
        Reduce::Last | Reduce::First | Reduce::All => of(0.0, 2.0, 8.0, 0.95),
        Reduce::LayerNorm => of(1.0, 3.0, 20.0, 0.8),
        Reduce::RmsNorm => of(1.0, 1.0, 20.0, 0.95),
        Reduce::LayerNormBackward | Reduce::RmsNormBackward => of(2.0, 5.0, 30.0, 0.9),
        Reduce::Softmax | Reduce::LogSoftmax if long => of(2.0, 1.0, 30.0, 1.0),
        Reduce::SoftmaxBackward | Reduce::LogSoftmaxBackward if long => of(1.0, 1.0, 30.0, 0.9),
        Reduce::Softmax
        | Reduce::LogSoftmax
        | Reduce::SoftmaxBackward
        | Reduce::LogSoftmaxBackward => of(0.0, 1.0, 30.0, 1.0),
        Reduce::BatchNorm | Reduce::BatchNormBackward => of(1.0, 2.0, 15.0, 0.7),
        Reduce::Pool => of(0.0, 1.0, 15.0, 0.9),
    }
}

/// Batch norm gives a channel to a block: fewer channels than multiprocessors leave some idle.
fn parallel_share(rates: &Rates, kind: Reduce, rows: u32) -> f64 {
    match kind {
        Reduce::BatchNorm | Reduce::BatchNormBackward => {
            (f64::from(rows) / rates.processors).min(1.0)
        }
        _ => 1.0,
    }
}

/// Seconds of an indexed access. Rows are gathered at streaming speed; scattered writes and sorts
/// reach a half and a quarter of it (general: atomics and several passes).
pub(super) fn index_seconds(rates: &Rates, kind: Index, bytes: u64) -> f64 {
    let (share, ramps) = match kind {
        Index::Gather => (0.75, 1.0),
        Index::Scatter => (0.5, 1.0),
        Index::EmbeddingBackward => (0.5, 8.0),
        Index::Sort => (0.25, 4.0),
    };
    ramps * RAMP + as_f64(bytes) / (rates.memory * STREAM * share)
}

/// Seconds of an optimizer's operation: streams over several tensors at once. Multi-tensor kernels
/// give every block one chunk of 65,536 elements and read three to seven streams at once, which
/// costs 15 to 25 % of the streaming rate (general).
pub(super) fn update_seconds(rates: &Rates, kind: Update, bytes: u64, kernels: u16) -> f64 {
    let share = match kind {
        Update::Foreach => 0.85,
        Update::Fused => 0.75,
        Update::Single => 0.9,
    };
    f64::from(kernels) * RAMP + as_f64(bytes) / (rates.memory * STREAM * share)
}

/// Seconds of a transfer over PCI Express: `10 µs + bytes / 55 GB/s`.
///
/// nvbandwidth on PCI Express 5 ×16: 55.4 GB/s to the device, 55.1 back (stas00/ml-engineering, network,
/// read 2026-08-22). The profile has no link yet, so older links are faster here than in truth.
pub(super) fn transfer_seconds(link: Link, bytes: u64) -> f64 {
    let rate = match link {
        Link::HostToDevice => 55.4e9,
        Link::DeviceToHost => 55.1e9,
    };
    5e-6 + as_f64(bytes) / rate
}
