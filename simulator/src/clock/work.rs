//! What a primitive asks of the device: the clock's only input.
//!
//! The interpreter emits one [`Work`] for each framework operation that it executes, in host order.
//! A `Work` says what kind of kernel runs, on how much data, and who issues it; it knows nothing of
//! any GPU. Everything fits in 48 bytes and is `Copy`, because a step has 10⁴ to 10⁵ of them.

/// Number format that the kernel's arithmetic runs in.
///
/// A kernel that reads bf16 and accumulates in fp32 is `Bf16`; fp32 matrix products run as TF32
/// when the clock's [`Tf32`](super::Tf32) setting allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Number {
    /// IEEE double.
    F64,
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
    /// Any 8-bit float.
    F8,
    /// 64-bit integers (token ids, indices).
    I64,
    /// Anything of one byte (masks).
    Byte,
}

impl Number {
    /// Bytes of one element.
    pub const fn size(self) -> u64 {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::F8 | Self::Byte => 1,
        }
    }
}

/// Which of a product's three forms: they differ in memory layout, and so in speed.
///
/// For `y[m,n] = x[m,k] · w[n,k]ᵀ` the input gradient is the product with output `[m,k]` and
/// reduction `n`, the weight gradient the one with output `[n,k]` and reduction `m`. A `Work` always
/// carries the dimensions of the product that runs: output `m × n`, reduction `k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Pass {
    /// The forward product, or a product outside autograd.
    Forward,
    /// Gradient with respect to the input.
    InputGrad,
    /// Gradient with respect to the weight.
    WeightGrad,
}

/// Which fused attention kernel `scaled_dot_product_attention` picked.
///
/// The math fallback is no kernel of its own: it is emitted as products and a softmax.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AttentionKernel {
    /// FlashAttention (fp16, bf16).
    Flash,
    /// The memory-efficient kernel (fp32, masks).
    Efficient,
    /// cuDNN's fused attention.
    Cudnn,
}

/// Element-wise kernels by what their inner loop costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Pointwise {
    /// Two or more tensor inputs: add, mul, sub, div of tensors, masks, and their backwards.
    Binary,
    /// One tensor input, cheap: `relu`, `pow(2)`, `neg`, add or mul with a scalar, `rsqrt`, fill.
    Unary,
    /// Sigmoid, `SiLU`, exponential, and their backwards.
    Silu,
    /// GELU by the error function, and its backward.
    Gelu,
    /// GELU by the hyperbolic tangent as one kernel, and its backward.
    GeluTanh,
    /// Hyperbolic tangent, sine, cosine.
    Tanh,
    /// Dropout's forward: random numbers, output and mask.
    Dropout,
    /// A cast to a wider type.
    Widen,
    /// A cast to a narrower type.
    Narrow,
    /// A copy with the same layout (`clone`, `contiguous` of contiguous data, device `copy_`).
    Copy,
    /// A copy that changes the layout (`contiguous` after a transpose, `cat`, `slice` backward).
    Strided,
}

/// Kernels that reduce over rows of `cols` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Reduce {
    /// Sum or mean over the last axis.
    Last,
    /// Sum over leading axes (bias gradients, broadcast gradients).
    First,
    /// Sum of everything to one number (loss means, norms).
    All,
    /// Layer norm, forward.
    LayerNorm,
    /// Layer norm, backward: input, weight and bias gradients.
    LayerNormBackward,
    /// RMS norm as one kernel, forward.
    RmsNorm,
    /// RMS norm as one kernel, backward.
    RmsNormBackward,
    /// Softmax, forward.
    Softmax,
    /// Softmax, backward.
    SoftmaxBackward,
    /// Log-softmax, forward.
    LogSoftmax,
    /// Log-softmax, backward.
    LogSoftmaxBackward,
    /// Batch norm in training, forward.
    BatchNorm,
    /// Batch norm in training, backward.
    BatchNormBackward,
    /// Pooling, forward or backward.
    Pool,
}

/// Kernels that address memory by an index tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Index {
    /// Embedding look-up, `index_select`, `gather`, advanced indexing.
    Gather,
    /// `scatter`, `index_put`, `index_add`, `nll_loss` backward.
    Scatter,
    /// Embedding's dense backward: sort, then sum.
    EmbeddingBackward,
    /// `sort`, `topk`, `cumsum`, `argmax`.
    Sort,
}

/// How an optimizer's update is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Update {
    /// One `_foreach_*` operation over a list of tensors.
    Foreach,
    /// The whole update as one fused multi-tensor kernel.
    Fused,
    /// One operation on one tensor in the Python loop.
    Single,
}

/// Transfers over the host link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Link {
    /// Pinned host memory to the device.
    HostToDevice,
    /// Device to pinned host memory.
    DeviceToHost,
}

/// Host work that launches no kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum HostWork {
    /// `view`, `transpose`, `expand`, slicing, `detach`; in backward, a node that only reshapes.
    View,
    /// `empty`, `empty_like`.
    Empty,
    /// `torch.nn.Module.__call__` around a forward.
    Module,
    /// cuDNN's part of a call beyond what a loop over one shape shows: another plan each time.
    Plan,
    /// `AccumulateGrad` that takes the gradient over without a kernel.
    Accumulate,
    /// A call of `backward()`, `step()` or another entry into the framework.
    Entry,
}

/// What kind of kernel runs, with the sizes that its speed depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkClass {
    /// A (batched) matrix product, output `m × n`, reduction `k`.
    Matmul {
        /// Rows of the output.
        m: u32,
        /// Columns of the output.
        n: u32,
        /// Length of the reduction.
        k: u32,
        /// Independent products.
        batch: u32,
        /// Layout.
        pass: Pass,
    },
    /// Fused scaled dot-product attention.
    Attention {
        /// Sequences.
        batch: u32,
        /// Query positions.
        q_len: u32,
        /// Key positions.
        kv_len: u32,
        /// Query heads.
        heads: u16,
        /// Key/value heads.
        kv_heads: u16,
        /// Channels per head.
        head_dim: u16,
        /// Whether the kernel skips the upper triangle.
        causal: bool,
        /// Whether this is the backward kernel.
        backward: bool,
        /// Implementation.
        kernel: AttentionKernel,
    },
    /// A 2-D convolution.
    Convolution {
        /// Images.
        batch: u32,
        /// Input channels.
        in_channels: u16,
        /// Output channels.
        out_channels: u16,
        /// Output height.
        out_height: u16,
        /// Output width.
        out_width: u16,
        /// Groups.
        groups: u16,
        /// Kernel height.
        kernel_height: u8,
        /// Kernel width.
        kernel_width: u8,
        /// Stride.
        stride: u8,
        /// Whether the data is channels-last.
        channels_last: bool,
        /// Forward, input or weight gradient.
        pass: Pass,
    },
    /// An element-wise kernel over `Work::bytes`.
    Elementwise(Pointwise),
    /// A reduction.
    Reduction {
        /// Which one.
        kind: Reduce,
        /// Rows.
        rows: u32,
        /// Elements in a row.
        cols: u32,
    },
    /// Indexed access.
    Index(Index),
    /// An optimizer's update.
    Optimizer {
        /// How it is issued.
        kind: Update,
        /// Tensors in the list.
        tensors: u32,
    },
    /// A transfer over the host link.
    Transfer(Link),
    /// No kernel.
    Host(HostWork),
    /// The host waits for the device (`loss.item()`, `synchronize`, the scaler's `found_inf`).
    Synchronize,
}

/// Who issues an operation, which decides what the host pays around the kernel launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Issue {
    /// Python calls it (argument parsing, dispatch, recording the autograd node).
    Python,
    /// It is the first operation of an autograd node (ready queue, node, gradient checks).
    Node,
    /// It runs inside an operation or node that was already paid for.
    Inner,
}

/// One operation: what the device does and what the host pays to issue it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    /// Kind of kernel.
    pub class: WorkClass,
    /// Number format of the arithmetic.
    pub number: Number,
    /// Who issues it.
    pub issue: Issue,
    /// Kernels launched; the host pays for each. 0 for host-only work.
    pub kernels: u16,
    /// Floating-point operations (a multiply-add is 2). Sets the time of a matrix product; for the
    /// other classes it is reported only.
    pub flops: u64,
    /// Bytes read plus bytes written, every tensor once.
    pub bytes: u64,
}

/// Sizes of a matrix product: output `m × n`, reduction `k`, `batch` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gemm {
    /// Rows of the output.
    pub m: u32,
    /// Columns of the output.
    pub n: u32,
    /// Length of the reduction.
    pub k: u32,
    /// Independent products.
    pub batch: u32,
}

impl Gemm {
    /// A single product.
    pub const fn new(m: u32, n: u32, k: u32) -> Self {
        Self { m, n, k, batch: 1 }
    }

    /// 2·m·n·k·batch floating-point operations.
    pub fn flops(self) -> u64 {
        product(2, [self.m, self.n, self.k, self.batch])
    }

    /// Elements of both inputs and the output.
    pub fn elements(self) -> u64 {
        let (m, n, k) = (u64::from(self.m), u64::from(self.n), u64::from(self.k));
        (m * k + k * n + m * n) * u64::from(self.batch)
    }
}

impl Work {
    /// A matrix product in one kernel; FLOPs and bytes follow from its sizes.
    pub fn matmul(gemm: Gemm, pass: Pass, number: Number, issue: Issue) -> Self {
        let Gemm { m, n, k, batch } = gemm;
        Self {
            class: WorkClass::Matmul { m, n, k, batch, pass },
            number,
            issue,
            kernels: 1,
            flops: gemm.flops(),
            bytes: gemm.elements().saturating_mul(number.size()),
        }
    }

    /// An element-wise kernel over `bytes` read and written.
    pub const fn elementwise(kind: Pointwise, number: Number, bytes: u64, issue: Issue) -> Self {
        Self::sized(WorkClass::Elementwise(kind), number, bytes, issue)
    }

    /// One kernel of any class over `bytes` read and written, without FLOPs of note.
    pub const fn sized(class: WorkClass, number: Number, bytes: u64, issue: Issue) -> Self {
        Self { class, number, issue, kernels: 1, flops: 0, bytes }
    }

    /// Host work without a kernel.
    pub const fn host(kind: HostWork, issue: Issue) -> Self {
        Self {
            class: WorkClass::Host(kind),
            number: Number::Byte,
            issue,
            kernels: 0,
            flops: 0,
            bytes: 0,
        }
    }

    /// The host waits until the device has finished everything.
    pub const fn synchronize() -> Self {
        Self {
            class: WorkClass::Synchronize,
            number: Number::Byte,
            issue: Issue::Inner,
            kernels: 0,
            flops: 0,
            bytes: 0,
        }
    }

    /// A number that differs between works that differ, mostly: for tables of known works.
    pub(super) fn fingerprint(&self) -> u64 {
        const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
        let (class, size) = match self.class {
            WorkClass::Matmul { m, n, pass, .. } => {
                (pass as u64, u64::from(m) << 32 | u64::from(n))
            }
            WorkClass::Attention { q_len, backward, .. } => {
                (4 + u64::from(backward), u64::from(q_len))
            }
            WorkClass::Convolution { in_channels, pass, .. } => {
                (8 + pass as u64, u64::from(in_channels))
            }
            WorkClass::Elementwise(kind) => (16 + kind as u64, 0),
            WorkClass::Reduction { kind, rows, .. } => (32 + kind as u64, u64::from(rows)),
            WorkClass::Index(kind) => (48 + kind as u64, 0),
            WorkClass::Optimizer { kind, tensors } => (52 + kind as u64, u64::from(tensors)),
            WorkClass::Transfer(link) => (56 + link as u64, 0),
            WorkClass::Host(_) | WorkClass::Synchronize => (63, 0),
        };
        let mut mixed = (class << 8 | self.number as u64).wrapping_mul(MIX) ^ self.bytes;
        for word in [self.flops, size, u64::from(self.kernels)] {
            mixed = mixed.wrapping_mul(MIX).rotate_left(29) ^ word;
        }
        mixed.wrapping_mul(MIX)
    }

    /// The same work with another number of kernel launches.
    #[must_use]
    pub const fn with_kernels(mut self, kernels: u16) -> Self {
        self.kernels = kernels;
        self
    }
}

/// FLOPs of a fused attention kernel: forward 4·b·h·q·k·d, half of it when causal; backward 2.5
/// times that, for it computes five products where forward computes two.
///
/// Source: FlashAttention-2, arXiv 2307.08691, section 4.1 (2023-07).
pub fn attention_flops(class: WorkClass) -> u64 {
    let WorkClass::Attention { batch, q_len, kv_len, heads, head_dim, causal, backward, .. } =
        class
    else {
        return 0;
    };
    let products = if backward { 5 } else { 2 };
    let all = product(2 * products, [batch, heads.into(), q_len, kv_len, head_dim.into()]);
    all / if causal { 2 } else { 1 }
}

/// A product of sizes; beyond 64 bits, where no machine would ever end, it stays at the limit.
fn product<const N: usize>(factor: u64, sizes: [u32; N]) -> u64 {
    sizes.into_iter().fold(factor, |product, size| product.saturating_mul(u64::from(size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_small() {
        assert!(size_of::<Work>() <= 48, "{}", size_of::<Work>());
    }

    #[test]
    fn attention_counts_as_published() {
        let class = |causal, backward| WorkClass::Attention {
            batch: 2,
            q_len: 4096,
            kv_len: 4096,
            heads: 32,
            kv_heads: 8,
            head_dim: 64,
            causal,
            backward,
            kernel: AttentionKernel::Flash,
        };
        let forward = 4 * 2 * 32 * 4096 * 4096 * 64;
        assert_eq!(attention_flops(class(false, false)), forward);
        assert_eq!(attention_flops(class(true, true)), forward * 5 / 4);
    }
}
