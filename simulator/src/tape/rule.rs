//! How a node makes its gradients: one rule for each primitive, with the sizes it needs.

use crate::clock::AttentionKernel;
use crate::tensor::{DType, Layout, Shape};
use crate::wire::scenario::BaseFormat;

use super::parallel::Megatron;

/// The rule of a node's backward, with the numbers it needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Backward {
    /// The gradient goes on unchanged to every input.
    Pass,
    /// Sum of two tensors; gradients are reduced to broadcast inputs.
    Add {
        /// Shapes of the inputs.
        inputs: [Shape; 2],
        /// Element types of the inputs.
        dtypes: [DType; 2],
    },
    /// Difference of two tensors of the same shape.
    Sub {
        /// Element types of the inputs.
        dtypes: [DType; 2],
    },
    /// `base[..., a..b].copy_(source)`.
    CopySlices {
        /// Shape of the base.
        base: Shape,
        /// Shape of the source.
        source: Shape,
        /// The source's dtype.
        dtype: DType,
    },
    /// Product of two tensors; gradients are reduced to broadcast inputs.
    Mul {
        /// Shapes of the inputs.
        inputs: [Shape; 2],
        /// Element types of the inputs.
        dtypes: [DType; 2],
    },
    /// An input that every rank has whole: the gradients of all ranks are summed into a new tensor.
    AllReduce,
    /// Columns of all ranks side by side: the rank's own are copied out of the gradient.
    GatherColumns {
        /// Shape of the rank's part.
        input: Shape,
    },
    /// One output element per gradient element: a new tensor of the input's dtype.
    Unary,
    /// `relu`: as [`Self::Unary`], in the memory order of the result, which `threshold_backward` names
    /// before the gradient.
    Threshold {
        /// Memory order of the result.
        layout: Layout,
    },
    /// `pow(2)`: `grad * (2 * self.pow(1))`.
    Square,
    /// `rsqrt`: `-0.5 * grad * result.pow(3)`.
    Rsqrt,
    /// `mean` over the last dimension: expand and divide.
    Mean {
        /// Shape of the input.
        input: Shape,
    },
    /// Cast: back to the input's dtype.
    Cast {
        /// The input's dtype.
        to: DType,
    },
    /// `view` or `reshape`: the gradient is reshaped back, which copies what is not contiguous.
    Reshape {
        /// Shape before.
        input: Shape,
    },
    /// `transpose(1, 2)`: a transposed view of the gradient.
    Transpose,
    /// `slice`: zeros of the input's shape, with the gradient copied in.
    Slice {
        /// Shape of the input.
        input: Shape,
    },
    /// `cat` along the last dimension: views of the gradient.
    Cat {
        /// Innermost sizes of the inputs.
        sizes: [u64; 2],
        /// Element types of the inputs.
        dtypes: [DType; 2],
    },
    /// `split` into parts along the last dimension: the gradients are concatenated.
    Split {
        /// Shape of the input.
        input: Shape,
        /// Number of parts.
        parts: u8,
    },
    /// `permute(2, 0, 1)` and `unsqueeze(0)`: a view of the gradient, its heads outermost in memory.
    HeadsFirst {
        /// Shape of the input.
        input: Shape,
    },
    /// `pad` of the last dimension: the gradient's part, copied.
    Unpad {
        /// Shape of the input.
        input: Shape,
    },
    /// `where(condition, self, number)`: the gradient where the condition holds, zero elsewhere.
    Where,
    /// Matrix product of `[rows, inner]` with a parameter.
    Linear(Product),
    /// The same with a frozen parameter that is held in 4 bits.
    QuantisedLinear {
        /// Its sizes.
        product: Product,
        /// How the parameter is held.
        base: BaseFormat,
    },
    /// Batched matrix product.
    Bmm(Batched),
    /// Attention by one fused kernel.
    Sdpa(Attention),
    /// Repeated key and value heads: the gradient is summed over the group.
    RepeatKv {
        /// Shape before.
        input: Shape,
        /// Repetitions.
        groups: u64,
    },
    /// Embedding look-up.
    Embedding {
        /// Rows of the table.
        vocab: u64,
        /// Columns of the table.
        hidden: u64,
        /// Indices looked up.
        indices: u64,
        /// Whether one row is never trained (`padding_idx`).
        padding: bool,
        /// Whether the indices are one row seen as many.
        expanded: bool,
    },
    /// Rows looked up by their numbers: zeros of the input's shape, the rows added in.
    Index {
        /// Shape of the input.
        input: Shape,
        /// Rows looked up.
        rows: u64,
    },
    /// `topk` and `gather` along the last dimension: zeros of the input's shape, the values scattered.
    Scatter {
        /// Shape of the input.
        input: Shape,
    },
    /// `sum` over one dimension: the gradient expanded, a view.
    Expand {
        /// Shape of the input.
        input: Shape,
        /// The input's dtype.
        dtype: DType,
    },
    /// Quotient of two tensors; gradients are reduced to broadcast inputs.
    Div {
        /// Shapes of the inputs.
        inputs: [Shape; 2],
        /// Element types of the inputs.
        dtypes: [DType; 2],
    },
    /// Matrix products of groups of rows, each with its own matrix.
    Grouped(Grouped),
    /// `expand`: the gradient summed back to the input's shape.
    SumToInput {
        /// Shape before.
        input: Shape,
    },
    /// `cat` along the second of three dimensions: views of the gradient, in the inputs' dtypes.
    CatTokens {
        /// Shapes of the inputs.
        inputs: [Shape; 2],
        /// Element types of the inputs.
        dtypes: [DType; 2],
    },
    /// Convolution over patches.
    Patches(Patches),
    /// Any other convolution of images.
    Conv2d(Conv2d),
    /// Batch norm in training.
    BatchNorm {
        /// Shape of the input.
        input: Shape,
        /// Memory order of the input.
        layout: Layout,
        /// The weight's dtype.
        weight: DType,
    },
    /// A pool: a gradient of the input's shape and memory order.
    Pool {
        /// Shape of the input.
        input: Shape,
        /// Memory order of the input.
        layout: Layout,
    },
    /// The mean over an image's pixels: the gradient expanded, then divided.
    ImageMean {
        /// Shape of the input.
        input: Shape,
    },
    /// `as_strided` of a dense tensor: zeros of its size, the gradient copied in.
    AsStrided,
    /// `permute` of a dense tensor of four dimensions.
    Permute {
        /// Shape before.
        input: Shape,
        /// Whether channels went to the last place.
        to_last: bool,
    },
    /// `cat` of any number of tensors along the channels: views of the gradient.
    CatChannels,
    /// Layer norm.
    LayerNorm {
        /// Rows.
        rows: u64,
        /// Columns.
        columns: u64,
        /// Memory order of the input.
        layout: Layout,
    },
    /// Dropout: the gradient times the mask.
    Dropout,
    /// Dropout in place of a view, which autograd sees as a change of the view's base.
    DropoutOfView,
    /// Softmax over the last dimension.
    Softmax {
        /// The input's dtype.
        to: DType,
    },
    /// Log-softmax over the last dimension.
    LogSoftmax {
        /// The input's dtype.
        to: DType,
    },
    /// Negative log-likelihood: a gradient of zeros of the input's shape.
    NllLoss {
        /// Shape of the input.
        input: Shape,
    },
    /// A leaf that is no parameter: its gradient stays until the graph goes.
    Leaf,
    /// A function of Megatron-core.
    Megatron(Megatron),
    /// Fused linear cross-entropy: gradients were made in the forward pass and kept.
    FusedLoss {
        /// Shapes of input and weight.
        inputs: [Shape; 2],
    },
}

/// Sizes of a product of `[rows, inner]` with a parameter of `inner × outer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Rows of the input.
    pub rows: u64,
    /// Columns of the input.
    pub inner: u64,
    /// Columns of the output.
    pub outer: u64,
    /// Whether a bias was added (`addmm`).
    pub bias: bool,
    /// Whether the parameter is stored `[outer, inner]` and used through a transposed view.
    pub transposed: bool,
    /// Shape of the input.
    pub input: Shape,
}

/// Sizes of products of groups of rows `[rows of the group, inner]` with `[inner, outer]` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouped {
    /// Groups.
    pub groups: u64,
    /// Rows of all groups.
    pub rows: u64,
    /// Columns of the input.
    pub inner: u64,
    /// Columns of the output.
    pub outer: u64,
}

/// Sizes of `batch` products `[m, k] × [k, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batched {
    /// How many.
    pub batch: u64,
    /// Rows.
    pub m: u64,
    /// Inner size.
    pub k: u64,
    /// Columns.
    pub n: u64,
    /// Whether the second input is stored `[n, k]` and used through a transposed view.
    pub transposed: bool,
    /// Shapes of the inputs.
    pub inputs: [Shape; 2],
}

/// Sizes of a convolution over the patches of square images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patches {
    /// How many images.
    pub images: u64,
    /// Channels of an image.
    pub channels: u64,
    /// Pixels a side of an image.
    pub side: u64,
    /// Pixels a side of a patch.
    pub patch: u64,
    /// Channels out.
    pub hidden: u64,
}

impl Patches {
    /// Patches of one image.
    pub const fn count(&self) -> u64 {
        (self.side / self.patch) * (self.side / self.patch)
    }

    /// As a matrix product: rows, columns, inner size, batch.
    pub const fn gemm(&self) -> [u64; 4] {
        let inner = self.channels * self.patch * self.patch;
        [self.images * self.count(), self.hidden, inner, 1]
    }
}

/// Whose kernel a fused attention is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionLibrary {
    /// One of those that PyTorch chooses from.
    PyTorch,
    /// `flash-attn` 2.
    Flash2,
    /// `flash-attn` 3.
    Flash3,
}

/// Shape of a fused attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    /// Which kernel.
    pub kernel: AttentionKernel,
    /// Whose.
    pub library: AttentionLibrary,
    /// Sequences.
    pub batch: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Tokens of the query per sequence.
    pub tokens: u64,
    /// Tokens of key and value per sequence.
    pub kv_tokens: u64,
    /// Elements per query and key head.
    pub head_dim: u64,
    /// Elements per value head.
    pub value_dim: u64,
    /// Whether a token sees only itself and those before it.
    pub causal: bool,
}

/// Sizes of a convolution of square images with square kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2d {
    /// How many images.
    pub images: u64,
    /// Channels in.
    pub inputs: u64,
    /// Channels out.
    pub outputs: u64,
    /// Pixels a side of an image.
    pub side: u64,
    /// Pixels a side of the kernel.
    pub kernel: u64,
    /// Pixels from one place of the kernel to the next.
    pub stride: u64,
    /// Pixels added at each edge.
    pub padding: u64,
    /// Groups of channels that do not meet.
    pub groups: u64,
    /// Whether a bias is added.
    pub bias: bool,
    /// Memory order in which the forward's kernels work.
    pub layout: Layout,
    /// Memory orders of input and weight as they are kept.
    pub kept: [Layout; 2],
    /// Whether PyTorch's own kernels run it: one input channel a group.
    pub native: bool,
}

impl Conv2d {
    /// Pixels a side of the result.
    pub const fn out_side(&self) -> u64 {
        (self.side + 2 * self.padding - self.kernel) / self.stride + 1
    }

    /// Shapes of input, weight and result.
    pub fn shapes(&self) -> [Shape; 3] {
        let &Self { images, inputs, outputs, side, kernel, groups, .. } = self;
        let out = self.out_side();
        [
            Shape::new([images, inputs, side, side]),
            Shape::new([outputs, inputs / groups, kernel, kernel]),
            Shape::new([images, outputs, out, out]),
        ]
    }
}
