//! A GPU's datasheet as the clock needs it: rates in FLOP/s and B/s, with the rules for gaps.

use super::Tf32;
use super::work::Number;
use crate::wire::GpuProfile;

/// What share of the datasheet's matrix rate the best shape reaches, and how fused attention does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Generation {
    /// Best matrix product, fraction of the dense datasheet rate.
    pub matmul: f64,
    /// The same for 8-bit floats.
    pub matmul_f8: f64,
    /// Whether the matrix units are fed asynchronously (`wgmma`, `tcgen05`), which kernels written
    /// for the generation before do not use.
    pub asynchronous: bool,
}

/// Datasheet rates with every gap filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    matrix_f64: f64,
    matrix_f32: f64,
    matrix_f16: f64,
    matrix_bf16: f64,
    matrix_f8: f64,
    /// fp32 rate of the vector units, FLOP/s.
    pub vector: f64,
    /// Memory bandwidth, B/s.
    pub memory: f64,
    /// Second-level cache, bytes.
    pub cache_bytes: f64,
    /// Second-level cache bandwidth, B/s.
    pub cache: f64,
    /// Streaming multiprocessors; 1 where the profile has none, which switches wave counting off.
    pub processors: f64,
    /// Fractions of this generation.
    pub generation: Generation,
}

/// Bytes that one multiprocessor takes from the second-level cache in a clock, sustained.
///
/// V100 has 2048 B/clock for 80 multiprocessors, A100 5120 B/clock for 108 (NVIDIA A100
/// whitepaper, 2020-05): 25 and 47; streaming reads sustain about 2.5 TB/s on a V100
/// (te42kyfo/gpu-benches, read 2026-11), which is 21 B per multiprocessor and clock.
const CACHE_BYTES_PER_CLOCK: f64 = 24.0;

impl Rates {
    /// Reads the profile.
    ///
    /// Gaps are filled so: no bf16 or no TF32 rate means that the format has no matrix units
    /// (Volta, Turing) and runs at the fp32 vector rate; no fp16 rate likewise; no fp8 rate means
    /// that fp8 is only stored and computes at the bf16 rate; fp64 runs at half the fp32 rate; no
    /// fp32 rate (matrix-only accelerators) means an eighth of the best 16-bit rate; no cache size
    /// means none; a cache's bandwidth follows from the clock, which follows from the fp32 rate.
    pub(super) fn new(gpu: &GpuProfile, tf32: bool) -> Self {
        const TERA: f64 = 1e12;
        let sixteen = gpu.bf16_tflops.or(gpu.fp16_tflops).unwrap_or(1.0);
        let vector = gpu.fp32_tflops.unwrap_or(sixteen / 8.0) * TERA;
        let filled = |rate: Option<f64>| rate.map_or(vector, |tflops| tflops * TERA);
        let matrix_bf16 = filled(gpu.bf16_tflops);
        #[expect(clippy::cast_precision_loss, reason = "a few hundred multiprocessors")]
        let processors = gpu.sm_count.unwrap_or(1).max(1) as f64;
        let clock = vector / (2.0 * lanes(gpu) * processors);
        let memory = gpu.memory_bandwidth_gbps * 1e9;
        let cache_bytes = gpu.l2_mb.unwrap_or(0.0) * 1e6;
        let cache = CACHE_BYTES_PER_CLOCK * clock * processors;
        Self {
            matrix_f64: vector / 2.0,
            matrix_f32: if tf32 { filled(gpu.tf32_tflops) } else { vector },
            matrix_f16: filled(gpu.fp16_tflops),
            matrix_bf16,
            matrix_f8: gpu.fp8_tflops.map_or(matrix_bf16, |tflops| tflops * TERA),
            vector,
            memory,
            cache_bytes,
            cache: cache.max(memory),
            processors,
            generation: generation(gpu),
        }
    }

    /// The dense matrix rate for a format, FLOP/s.
    pub(super) fn matrix(&self, number: Number) -> f64 {
        match number {
            Number::F64 => self.matrix_f64,
            Number::F32 | Number::I64 | Number::Byte => self.matrix_f32,
            Number::F16 => self.matrix_f16,
            Number::Bf16 => self.matrix_bf16,
            Number::F8 => self.matrix_f8,
        }
    }

    /// Share of the matrix rate that the best shape reaches.
    ///
    /// Products that fall back to the vector units reach 0.9 of them: large fp32 products on V100
    /// and A100 run at 14.2 of 15.7 and 17.6–18.5 of 19.5 TFLOP/s (recalled; cuBLAS, 2020).
    pub(super) fn matrix_share(&self, number: Number) -> f64 {
        if self.matrix(number) <= self.vector {
            return 0.9;
        }
        match number {
            Number::F8 => self.generation.matmul_f8,
            _ => self.generation.matmul,
        }
    }
}

/// fp32 lanes of one multiprocessor: 64 on data-centre Pascal, Volta, Turing and A100, 128 on the
/// others (NVIDIA CUDA C++ programming guide, arithmetic throughput table, 2025-09).
fn lanes(gpu: &GpuProfile) -> f64 {
    match gpu.compute_capability.as_deref() {
        Some("6.0" | "7.0" | "7.5" | "8.0") => 64.0,
        _ => 128.0,
    }
}

/// Measured best over datasheet, dense: stas00/ml-engineering, compute/accelerator, maximum
/// achievable matmul FLOPS comparison, read 2026-08-22 (A100 SXM 271.2 of 312, its PCI Express card 252.9 of 312;
/// H100 794.5 of 989; B200 1745 of 2250; MI300X 668 of 1300; MI355X 1565 of 2516; Gaudi 2 418.7 of
/// 432, Gaudi 3 1243 of 1677; fp8 71 % on H100, 76 % on B200). Volta and Turing: 0.85, recalled
/// (cuBLAS fp16 on V100 reaches 105 of 125 TFLOP/s). Unknown generations: 0.75.
fn generation(gpu: &GpuProfile) -> Generation {
    let of = |matmul, matmul_f8, asynchronous| Generation { matmul, matmul_f8, asynchronous };
    let architecture = gpu.architecture.as_str();
    if architecture.starts_with("Blackwell") {
        return of(0.78, 0.76, true);
    }
    match architecture {
        "Pascal" | "Volta" | "Turing" => of(0.85, 0.85, false),
        "Ampere" | "Ada" => of(0.85, 0.80, false),
        "Hopper" => of(0.80, 0.71, true),
        "CDNA" | "CDNA2" | "CDNA3" => of(0.55, 0.55, false),
        "CDNA4" => of(0.62, 0.60, false),
        "Gaudi 2" => of(0.97, 0.96, true),
        "Gaudi 3" => of(0.74, 0.77, true),
        _ => of(0.75, 0.70, false),
    }
}

/// Rates of the two TF32 settings, because products and convolutions have one each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RatePair {
    /// For matrix products and everything else.
    pub matmul: Rates,
    /// For convolutions.
    pub convolution: Rates,
}

impl RatePair {
    /// Reads the profile under both settings.
    pub(super) fn new(gpu: &GpuProfile, tf32: Tf32) -> Self {
        Self {
            matmul: Rates::new(gpu, tf32.matmul),
            convolution: Rates::new(gpu, tf32.convolution),
        }
    }
}
