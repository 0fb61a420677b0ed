//! The file of measured device times: rows as saved, turned into works with their seconds.

use serde::Deserialize;

use super::work::{
    AttentionKernel, Gemm, Issue, Link, Number, Pass, Pointwise, Reduce, Update, Work, WorkClass,
};

/// A measured call: the works that it ran together, and how long they took, s.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    /// One work, or two that were timed as one call (a convolution's two gradients).
    pub works: Vec<Work>,
    /// Device seconds of the call.
    pub seconds: f64,
}

/// Format, m, k, n of `x[m,k] · w[n,k]ᵀ`; µs forward, input gradient, weight gradient.
type MatmulRow<'a> = (&'a str, u32, u32, u32, f64, Option<f64>, Option<f64>);
/// Kernel, format, causal, backward, batch, heads, sequence, channels, µs.
type AttentionRow<'a> = (&'a str, &'a str, bool, bool, u32, u16, u32, u16, f64);
/// Format, channels-last, images, channels, pixels, outputs, kernel, stride, groups; µs forward
/// and backward.
type ConvolutionRow<'a> = (&'a str, bool, u32, u16, u16, u16, u8, u8, u16, f64, f64);

/// The rows of a file under `simulator/data/measured`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Tables<'a> {
    #[serde(borrow)]
    matmul: Vec<MatmulRow<'a>>,
    /// Operation, format, elements, µs.
    elementwise: Vec<(&'a str, &'a str, u64, f64)>,
    /// Operation, format, rows, columns, µs.
    reduction: Vec<(&'a str, &'a str, u32, u32, f64)>,
    attention: Vec<AttentionRow<'a>>,
    convolution: Vec<ConvolutionRow<'a>>,
    /// Format, channels-last, images, channels, pixels, µs of a forward in training.
    batch_norm: Vec<(&'a str, bool, u32, u32, u32, f64)>,
    /// How it is issued, format, passes over a parameter's bytes, ps per parameter.
    optimizer: Vec<(&'a str, &'a str, u64, f64)>,
    /// Bytes, µs to the device, µs back.
    link: Vec<(u64, f64, f64)>,
    /// Operation: µs forward and backward on the host.
    #[cfg(test)]
    pub host_us: std::collections::BTreeMap<String, (f64, Option<f64>)>,
}

impl Tables<'_> {
    /// Every row as a sample; rows with names that this version does not know are skipped.
    pub(super) fn samples(&self) -> Vec<Sample> {
        let mut samples = Vec::with_capacity(512);
        self.matmuls(&mut samples);
        self.attentions(&mut samples);
        self.convolutions(&mut samples);
        let mut push = |work: Option<Work>, us: f64| {
            samples.extend(work.map(|work| Sample { works: vec![work], seconds: us * 1e-6 }));
        };
        for (name, format, elements, us) in &self.elementwise {
            push(pointwise(name, format, *elements), *us);
        }
        for (name, format, rows, cols, us) in &self.reduction {
            push(reduction(name, format, *rows, *cols), *us);
        }
        for &(format, channels_last, images, channels, pixels, us) in &self.batch_norm {
            let work = number(format).filter(|_| !channels_last).map(|number| {
                let cols = images * pixels * pixels;
                let bytes = 2 * u64::from(channels) * u64::from(cols) * number.size();
                reduce(Reduce::BatchNorm, number, (channels, cols), bytes)
            });
            push(work, us);
        }
        for (kind, format, passes, picoseconds) in &self.optimizer {
            push(update(kind, format, *passes), picoseconds * 1e-6 * PARAMETERS);
        }
        for &(bytes, to_device, to_host) in &self.link {
            for (link, us) in [(Link::HostToDevice, to_device), (Link::DeviceToHost, to_host)] {
                push(Some(one(WorkClass::Transfer(link), Number::Byte, bytes)), us);
            }
        }
        samples
    }

    fn matmuls(&self, samples: &mut Vec<Sample>) {
        for &(format, m, k, n, forward, input, weight) in &self.matmul {
            let Some(number) = number(format) else { continue };
            let passes = [
                (Pass::Forward, Gemm::new(m, n, k), Some(forward)),
                (Pass::InputGrad, Gemm::new(m, k, n), input),
                (Pass::WeightGrad, Gemm::new(n, k, m), weight),
            ];
            for (pass, gemm, us) in passes {
                let Some(us) = us else { continue };
                let work = Work::matmul(gemm, pass, number, Issue::Inner);
                samples.push(Sample { works: vec![work], seconds: us * 1e-6 });
            }
        }
    }

    fn attentions(&self, samples: &mut Vec<Sample>) {
        for &(kernel, format, causal, backward, batch, heads, length, head_dim, us) in
            &self.attention
        {
            let kernel = match kernel {
                "flash" => AttentionKernel::Flash,
                "cudnn" => AttentionKernel::Cudnn,
                "efficient" => AttentionKernel::Efficient,
                _ => continue,
            };
            let Some(number) = number(format) else { continue };
            let class = WorkClass::Attention {
                batch,
                q_len: length,
                kv_len: length,
                heads,
                kv_heads: heads,
                head_dim,
                causal,
                backward,
                kernel,
            };
            let tensors = if backward { 8 } else { 4 };
            let elements =
                u64::from(batch) * u64::from(heads) * u64::from(length) * u64::from(head_dim);
            let work = one(class, number, tensors * elements * number.size());
            samples.push(Sample { works: vec![work], seconds: us * 1e-6 });
        }
    }

    fn convolutions(&self, samples: &mut Vec<Sample>) {
        for &(
            format,
            channels_last,
            batch,
            in_channels,
            pixels,
            out_channels,
            kernel,
            stride,
            groups,
            forward,
            backward,
        ) in &self.convolution
        {
            let Some(number) = number(format) else { continue };
            let out = pixels.div_ceil(u16::from(stride.max(1)));
            let area = |side: u16| u64::from(side) * u64::from(side);
            let read = u64::from(batch) * u64::from(in_channels) * area(pixels);
            let write = u64::from(batch) * u64::from(out_channels) * area(out);
            let weights = u64::from(out_channels)
                * u64::from(in_channels / groups.max(1))
                * area(u16::from(kernel));
            let of = |pass| {
                let class = WorkClass::Convolution {
                    batch,
                    in_channels,
                    out_channels,
                    out_height: out,
                    out_width: out,
                    groups,
                    kernel_height: kernel,
                    kernel_width: kernel,
                    stride,
                    channels_last,
                    pass,
                };
                one(class, number, (read + write + weights) * number.size())
            };
            // The first layer of a network has no input gradient.
            let mut gradients = vec![of(Pass::WeightGrad)];
            if in_channels > 3 {
                gradients.push(of(Pass::InputGrad));
            }
            let forward = Sample { works: vec![of(Pass::Forward)], seconds: forward * 1e-6 };
            samples.push(forward);
            samples.push(Sample { works: gradients, seconds: backward * 1e-6 });
        }
    }
}

/// Parameters that the optimizer benchmark ran on: 16 tensors of 4096 × 4096.
const PARAMETERS: f64 = 268_435_456.0;

/// The same as a count.
const PARAMETER_COUNT: u64 = 1 << 28;

fn number(format: &str) -> Option<Number> {
    match format {
        "f32" => Some(Number::F32),
        "f16" => Some(Number::F16),
        "bf16" => Some(Number::Bf16),
        "f8" => Some(Number::F8),
        _ => None,
    }
}

const fn one(class: WorkClass, number: Number, bytes: u64) -> Work {
    Work::sized(class, number, bytes, Issue::Inner)
}

const fn reduce(kind: Reduce, number: Number, (rows, cols): (u32, u32), bytes: u64) -> Work {
    one(WorkClass::Reduction { kind, rows, cols }, number, bytes)
}

/// Bytes are those of the operation: both inputs of `add`, the mask of `dropout`, 2 + 4 of a cast.
fn pointwise(name: &str, format: &str, elements: u64) -> Option<Work> {
    let number = number(format)?;
    let size = number.size();
    let (kind, bytes) = match name {
        "add" | "mul" => (Pointwise::Binary, 3 * size),
        "relu" | "pow2" => (Pointwise::Unary, 2 * size),
        "silu" => (Pointwise::Silu, 2 * size),
        "gelu" => (Pointwise::Gelu, 2 * size),
        "gelu_tanh" => (Pointwise::GeluTanh, 2 * size),
        "tanh" => (Pointwise::Tanh, 2 * size),
        "dropout" => (Pointwise::Dropout, 2 * size + 1),
        "cast_f32" => (Pointwise::Widen, 6),
        "cast_bf16" => (Pointwise::Narrow, 6),
        "copy" => (Pointwise::Copy, 2 * size),
        _ => return None,
    };
    Some(one(WorkClass::Elementwise(kind), number, bytes * elements))
}

fn reduction(name: &str, format: &str, rows: u32, cols: u32) -> Option<Work> {
    let number = number(format)?;
    let plane = u64::from(rows) * u64::from(cols) * number.size();
    let (kind, bytes) = match name {
        "mean" => (Reduce::Last, plane),
        "layer_norm" => (Reduce::LayerNorm, 2 * plane),
        "rms_norm" => (Reduce::RmsNorm, 2 * plane),
        "layer_norm_backward" => (Reduce::LayerNormBackward, 3 * plane),
        "softmax" => (Reduce::Softmax, 2 * plane),
        "log_softmax" => (Reduce::LogSoftmax, 2 * plane),
        "log_softmax_backward" => (Reduce::LogSoftmaxBackward, 3 * plane),
        _ => return None,
    };
    Some(reduce(kind, number, (rows, cols), bytes))
}

fn update(kind: &str, format: &str, passes: u64) -> Option<Work> {
    let number = number(format)?;
    let kind = match kind {
        "foreach" => Update::Foreach,
        "fused" => Update::Fused,
        "single" => Update::Single,
        _ => return None,
    };
    let bytes = passes * PARAMETER_COUNT * number.size();
    Some(one(WorkClass::Optimizer { kind, tensors: 16 }, number, bytes))
}
