//! Two clocks: how long the device takes for a piece of work, and the host to issue it.
//!
//! ```text
//! Work ─► device (nominal: roofline from the datasheet; measured: tables of this GPU model) ─┐
//!      └► host (µs per operation)  ─────────────────────────────────────────────────────────► Replay
//! ```
//!
//! Memory never depends on this room: it follows the host's order alone.
//!
//! How far the clocks are off, on the micro-benchmarks of the H200 (450 device calls, 37 host
//! operations), median of |predicted / measured − 1|; the tests in `check` and `check_host` hold it:
//!
//! | class | nominal | measured, the call left out |
//! | --- | --- | --- |
//! | matrix products, bf16 / fp16 / TF32 / fp8 | 5 / 5 / 7 / 13 % | 3 / 4 / 4 / 5 % |
//! | attention forward, backward | 7, 8 % | 3, 3 % |
//! | element-wise (large copies) | 1–9 (15) % | 1–6 (35) %; widening casts 19, dropout 25 % |
//! | norms, softmax, means (batch norm) | 1–11 (25) % | 1–11 (20) % |
//! | optimizers | 3–18 % | 3–22 % |
//! | convolutions, channels-last, channels-first | 12, 22 % | 22, 26 % |
//! | host operations put together from their parts | 3 % | |
//!
//! Outside these tables: integers and fp64 are general, `Index` was never measured, a backward of
//! cuDNN's attention borrows its forward's correction, TF32 gradients borrow the forward product's.

mod attention;
mod gemm;
mod host;
mod measured;
mod memory;
mod rates;
mod replay;
mod tables;
mod work;

pub use host::HostClock;
pub use replay::Replay;
pub use work::{
    AttentionKernel, Gemm, HostWork, Index, Issue, Link, Number, Pass, Pointwise, Reduce, Update,
    Work, WorkClass, attention_flops,
};

use crate::units::Nanos;
use crate::wire::GpuProfile;
use crate::wire::report::TimeMode;
use measured::Measured;
use rates::RatePair;

/// Whether fp32 products may run as TF32: PyTorch's two switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tf32 {
    /// `torch.backends.cuda.matmul.allow_tf32`.
    pub matmul: bool,
    /// `torch.backends.cudnn.allow_tf32`.
    pub convolution: bool,
}

impl Tf32 {
    /// PyTorch's defaults since 1.12: convolutions only.
    pub const DEFAULT: Self = Self { matmul: false, convolution: true };
    /// Both on.
    pub const ALL: Self = Self { matmul: true, convolution: true };
}

/// The clocks of one GPU and its host.
#[derive(Clone, Debug, PartialEq)]
pub struct Clock {
    rates: RatePair,
    host: HostClock,
    measured: Option<Measured>,
}

impl Clock {
    /// Datasheet rates and general efficiencies.
    pub fn nominal(gpu: &GpuProfile, tf32: Tf32) -> Self {
        let rates = RatePair::new(gpu, tf32);
        Self { rates, host: HostClock::default(), measured: None }
    }

    /// Rates measured on this GPU model; `None` where none were.
    pub fn measured(gpu: &GpuProfile, tf32: Tf32) -> Option<Self> {
        let nominal = Self::nominal(gpu, tf32);
        let measured = Measured::of(gpu, tf32)?;
        Some(Self { measured: Some(measured), ..nominal })
    }

    /// Measured rates where this GPU model has them, else nominal ones.
    pub fn best(gpu: &GpuProfile, tf32: Tf32) -> Self {
        Self::measured(gpu, tf32).unwrap_or_else(|| Self::nominal(gpu, tf32))
    }

    /// The same device beside another host.
    #[must_use]
    pub fn with_host(mut self, host: HostClock) -> Self {
        self.host = host;
        self
    }

    /// Where device times come from.
    pub const fn mode(&self) -> TimeMode {
        if self.measured.is_some() { TimeMode::Measured } else { TimeMode::Nominal }
    }

    /// How long the device runs `work`; zero for host-only work.
    pub fn device(&self, work: &Work) -> Nanos {
        let ratio = self.measured.as_ref().map_or(1.0, |measured| measured.ratio(work));
        Nanos::from_seconds(nominal_seconds(&self.rates, work) * ratio)
    }

    /// How long the host takes to issue `work`.
    #[inline]
    pub fn issue(&self, work: &Work) -> Nanos {
        self.host.issue(work)
    }

    /// How long after the host begins to issue `work` its first kernel is launched.
    #[inline]
    fn first_launch(&self, work: &Work) -> Nanos {
        self.host.first_launch(work)
    }
}

/// Nominal device time, s.
fn nominal_seconds(rates: &RatePair, work: &Work) -> f64 {
    let general = &rates.matmul;
    let (number, bytes) = (work.number, work.bytes);
    match work.class {
        WorkClass::Matmul { m, n, k, batch, .. } => {
            gemm::matmul_seconds(general, Gemm { m, n, k, batch }, number, bytes)
        }
        WorkClass::Attention { .. } => attention::attention_seconds(general, work),
        WorkClass::Convolution { .. } => {
            gemm::convolution_seconds(&rates.convolution, work.class, number, bytes)
        }
        WorkClass::Elementwise(kind) => memory::pointwise_seconds(general, kind, number, bytes),
        WorkClass::Reduction { kind, rows, cols } => {
            memory::reduce_seconds(general, kind, number, (rows, cols), bytes)
        }
        WorkClass::Index(kind) => memory::index_seconds(general, kind, bytes),
        WorkClass::Optimizer { kind, .. } => {
            memory::update_seconds(general, kind, bytes, work.kernels)
        }
        WorkClass::Transfer(link) => memory::transfer_seconds(link, bytes),
        WorkClass::Host(_) | WorkClass::Synchronize => 0.0,
    }
}

#[cfg(test)]
mod check;
#[cfg(test)]
mod check_host;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Provenance;

    /// The H200 by its datasheet.
    pub(super) fn h200() -> GpuProfile {
        GpuProfile {
            id: "h200-sxm".to_owned(),
            name: "H200 SXM".to_owned(),
            aliases: Vec::new(),
            vendor: "NVIDIA".to_owned(),
            architecture: "Hopper".to_owned(),
            compute_capability: Some("9.0".to_owned()),
            memory_gb: 141.0,
            usable_mib: 143_771,
            memory_bandwidth_gbps: 4800.0,
            l2_mb: Some(50.0),
            sm_count: Some(132),
            fp32_tflops: Some(67.0),
            tf32_tflops: Some(494.7),
            fp16_tflops: Some(989.4),
            bf16_tflops: Some(989.4),
            fp8_tflops: Some(1979.0),
            tdp_w: Some(700.0),
            outside_pool: None,
            measured: true,
            unverified: Vec::new(),
            provenance: Provenance { source: String::new(), as_of: String::new() },
        }
    }

    #[test]
    fn missing_formats_fall_back_to_the_vector_units() {
        let v100 = GpuProfile {
            architecture: "Volta".to_owned(),
            compute_capability: Some("7.0".to_owned()),
            sm_count: Some(80),
            fp32_tflops: Some(15.7),
            fp16_tflops: Some(125.0),
            bf16_tflops: None,
            tf32_tflops: None,
            fp8_tflops: None,
            memory_bandwidth_gbps: 900.0,
            ..h200()
        };
        let clock = Clock::nominal(&v100, Tf32::ALL);
        let time = |number| {
            let gemm = Gemm::new(4096, 4096, 4096);
            clock.device(&Work::matmul(gemm, Pass::Forward, number, Issue::Python)).seconds()
        };
        assert!(time(Number::Bf16) > 6.0 * time(Number::F16));
        assert!((time(Number::Bf16) / time(Number::F32) - 1.0).abs() < 0.01);
    }

    #[test]
    fn tf32_is_the_callers_choice() {
        let work =
            Work::matmul(Gemm::new(8192, 8192, 8192), Pass::Forward, Number::F32, Issue::Python);
        let on = Clock::nominal(&h200(), Tf32::ALL).device(&work).seconds();
        let off = Clock::nominal(&h200(), Tf32::DEFAULT).device(&work).seconds();
        assert!(off > 5.0 * on);
        // What was measured is with both switches on, and says nothing about plain fp32.
        let off = Clock::measured(&h200(), Tf32::DEFAULT).unwrap().device(&work).seconds();
        assert!(off > 5.0 * on);
    }
}
