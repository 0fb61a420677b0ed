//! Rules of Megatron-core's own autograd functions, and of those that `torch.compile` makes of its
//! fused ones.

use crate::tensor::{Layout, Shape};

use super::Library;
use super::rule::{Attention, Batched};

/// The rule of a node that Megatron-core adds to PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Megatron {
    /// A view or a contiguous copy: the gradient is seen in the input's shape and memory order.
    Seen {
        /// Shape of the input.
        input: Shape,
        /// Memory order of the gradient as the input's.
        layout: Layout,
    },
    /// A collective over the first dimension: the gradient is exchanged into a new tensor.
    Exchange {
        /// Shape of the input.
        input: Shape,
    },
    /// `LinearWithGradAccumulationAndAsyncCommunication`.
    Linear(ParallelProduct),
    /// `_LayerNormLinear`: a norm and a product in one function.
    NormLinear(ParallelProduct),
    /// `FusedAttnFunc`, `AttnFuncWithCPAndQKVOA2A`.
    EngineAttention(EngineAttention),
    /// `CrossEntropyFunction`: the logits' memory holds their gradient.
    GradientInPlace {
        /// Shape of the logits.
        input: Shape,
    },
    /// `squared_relu`, compiled: one kernel over the input.
    SquaredRelu {
        /// Shape of the input.
        input: Shape,
    },
    /// `bias_dropout_add_fused_train`, compiled.
    BiasDropoutAdd(BiasDropoutAdd),
    /// `GeLUFunction`, `SwiGLUFunction` and their like: one kernel over the input, whose result is
    /// the bias's gradient too.
    Activation {
        /// Shape of the input, rows by columns.
        input: Shape,
        /// Whether a bias was added first.
        bias: bool,
    },
    /// `WeightedSwiGLUFunction`: as `Activation`, with a gradient for each row's weight.
    Weighted {
        /// Shape of the input, rows by columns.
        input: Shape,
    },
    /// `baddbmm` into a buffer: two products, each scaled into a new tensor.
    Baddbmm(Batched),
    /// `repeat_interleave` of heads: the gradient is summed over the group.
    RepeatInterleave {
        /// Shape before.
        input: Shape,
        /// Memory order of the input's gradient.
        groups: u64,
    },
    /// `F.embedding` of a gradient that may have to be made contiguous.
    Embedding {
        /// Rows of the table.
        rows: u64,
        /// Columns of the table.
        columns: u64,
        /// Indices looked up.
        indices: u64,
    },
    /// `F.rms_norm` as one kernel.
    RmsNorm,
    /// `_VocabParallelCrossEntropy`.
    CrossEntropy {
        /// Tokens.
        rows: u64,
        /// Shape of the logits.
        input: Shape,
    },
    /// The mean of all elements: the gradient of each.
    MeanAll {
        /// Shape of the input.
        input: Shape,
    },
    /// `split` of rows into many: the gradients, concatenated.
    SplitRows {
        /// Shape of the input.
        input: Shape,
    },
    /// `cat` of rows of many: a view of the gradient for each.
    CatRows,
    /// `CheckpointFunction`: its forward runs again, and backward through it.
    Checkpoint(Part),
}

/// What a checkpoint runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A layer's core attention.
    CoreAttention {
        /// The model chunk.
        chunk: u32,
        /// The layer in it.
        layer: u32,
    },
    /// Layers from one on.
    Layers {
        /// The model chunk.
        chunk: u32,
        /// The first layer.
        first: u32,
        /// How many.
        count: u32,
    },
}

/// Sizes of a column- or row-parallel product on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParallelProduct {
    /// Rows that are multiplied: the whole sequence's where the input is gathered.
    pub rows: u64,
    /// Columns of the input.
    pub inner: u64,
    /// Columns of the output.
    pub outer: u64,
    /// Shape of the input as it came.
    pub input: Shape,
    /// Whether the input is gathered along its first dimension (sequence parallelism).
    pub gathered: bool,
    /// Whether a bias is added.
    pub bias: bool,
    /// Who runs it.
    pub runner: Runner,
}

/// Who runs a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// PyTorch, over cuBLAS.
    Torch,
    /// Transformer Engine, over cuBLASLt.
    Engine,
    /// The same, with weight gradients added to their buffer by the product: a dummy is returned
    /// (`fuse_wgrad_accumulation`).
    EngineFused,
}

impl Runner {
    /// Whose workspace it takes.
    pub const fn library(self) -> Library {
        match self {
            Self::Torch => Library::Blas,
            Self::Engine | Self::EngineFused => Library::Engine,
        }
    }
}

/// Sizes of an attention among ranks that share each sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineAttention {
    /// The kernel's attention: whole sequences, and this rank's part of the heads.
    pub attention: Attention,
    /// Ranks that share each sequence (`cp_comm_type = "a2a"`).
    pub context: u64,
}

/// A compiled bias, dropout and residual addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BiasDropoutAdd {
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub columns: u64,
    /// Whether there is a bias.
    pub bias: bool,
    /// Whether anything is dropped.
    pub dropout: bool,
}
