//! What primitives ask of the device, in the clock's terms.

use crate::clock::{Gemm, Index, Issue, Number, Pass, Pointwise, Reduce, Update, Work, WorkClass};
use crate::tape::Prim;
use crate::tensor::{DType, Shape};

/// Sizes in the clock's 32 bits; a step has no larger dimension.
pub(super) fn narrow(size: u64) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

/// The clock's number format.
pub(super) const fn number(dtype: DType) -> Number {
    match dtype {
        // Counts and offsets: four bytes as well.
        DType::F32 | DType::I32 => Number::F32,
        DType::BF16 => Number::Bf16,
        DType::F16 => Number::F16,
        DType::I64 => Number::I64,
        DType::Bool => Number::Byte,
    }
}

/// One pass over memory.
pub fn pointwise(kind: Pointwise, dtype: DType, bytes: u64) -> Work {
    Work::elementwise(kind, number(dtype), bytes, Issue::Python)
}

/// The element-wise kernel that a primitive runs.
pub(super) const fn pointwise_of(prim: Prim, tensors: usize, from: DType, to: DType) -> Pointwise {
    match prim {
        Prim::Copy if from.bytes() < to.bytes() => Pointwise::Widen,
        Prim::Copy if to.bytes() < from.bytes() => Pointwise::Narrow,
        Prim::Copy => Pointwise::Copy,
        Prim::Silu | Prim::Sigmoid => Pointwise::Silu,
        Prim::Gelu => Pointwise::Gelu,
        Prim::Tanh | Prim::Trigonometry => Pointwise::Tanh,
        Prim::Dropout => Pointwise::Dropout,
        Prim::Add | Prim::Mul | Prim::Div if 1 < tensors => Pointwise::Binary,
        Prim::MaskedFill => Pointwise::Binary,
        _ => Pointwise::Unary,
    }
}

/// A reduction over a tensor of this shape.
pub(super) fn reduction(kind: Reduce, shape: &Shape, dtype: DType, bytes: u64) -> Work {
    let class =
        WorkClass::Reduction { kind, rows: narrow(shape.rows()), cols: narrow(shape.last()) };
    Work::sized(class, number(dtype), bytes, Issue::Python)
}

/// Indexed access.
pub(super) fn indexed(kind: Index, dtype: DType, bytes: u64) -> Work {
    Work::sized(WorkClass::Index(kind), number(dtype), bytes, Issue::Python)
}

/// A matrix product `[m, k] × [k, n]`, `batch` times.
pub fn product(sizes: [u64; 4], pass: Pass, dtype: DType) -> Work {
    let [m, n, k, batch] = sizes.map(narrow);
    Work::matmul(Gemm { m, n, k, batch }, pass, number(dtype), Issue::Python)
}

/// A multi-tensor update.
pub fn update(kind: Update, tensors: u64, dtype: DType, bytes: u64) -> Work {
    let class = WorkClass::Optimizer { kind, tensors: narrow(tensors) };
    Work::sized(class, number(dtype), bytes, Issue::Python)
}
