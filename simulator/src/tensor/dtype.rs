//! Element types.

/// An element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// 32-bit float.
    F32,
    /// bfloat16.
    BF16,
    /// IEEE half.
    F16,
    /// 64-bit integer.
    I64,
    /// 32-bit integer.
    I32,
    /// One byte: masks.
    Bool,
}

impl DType {
    /// Bytes of one element.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::BF16 | Self::F16 => 2,
            Self::Bool => 1,
        }
    }

    /// Whether it is one of the two half-width floats.
    pub const fn is_half(self) -> bool {
        matches!(self, Self::BF16 | Self::F16)
    }

    /// The result type of an operation between two floats (`torch.promote_types`).
    #[must_use]
    pub const fn promote(self, other: Self) -> Self {
        match (self, other) {
            (Self::BF16, Self::BF16) => Self::BF16,
            (Self::F16, Self::F16) => Self::F16,
            _ => Self::F32,
        }
    }
}
