//! Autograd's records: nodes, edges, parameters, checkpoints.

use crate::clock::AttentionKernel;
use crate::tensor::{DType, Shape};

use super::Tensor;
use super::label::{Prim, Scope};
use super::record::StorageId;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $name {
            /// From a position in its table.
            ///
            /// # Panics
            ///
            /// Above 2³² entries.
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("tables stay below 2^32 entries"))
            }

            /// The position in its table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// A node of the autograd graph; later nodes have higher numbers (autograd's sequence number).
    NodeId
}
id! {
    /// A parameter.
    ParamId
}
id! {
    /// A checkpointed layer.
    FrameId
}

/// What autograd knows of a tensor's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// No gradient flows.
    None,
    /// A leaf.
    Param {
        /// Which.
        id: ParamId,
        /// Whether the tensor is a view of it.
        view: bool,
    },
    /// Made by a node.
    Node {
        /// Which.
        id: NodeId,
        /// Which of its outputs.
        output: u8,
        /// Whether views lie between the node and this tensor.
        view: bool,
    },
    /// Made by a node of a checkpoint's second run, whose graph is never used.
    Recomputed,
}

impl Source {
    /// The same node's output of this number.
    #[must_use]
    pub const fn output(self, output: u8) -> Self {
        match self {
            Self::Node { id, view, .. } => Self::Node { id, output, view },
            other => other,
        }
    }

    /// The origin of a view of the tensor.
    #[must_use]
    pub const fn through_view(self) -> Self {
        match self {
            Self::Param { id, .. } => Self::Param { id, view: true },
            Self::Node { id, output, .. } => Self::Node { id, output, view: true },
            other => other,
        }
    }
}

/// Where a gradient goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edge {
    /// Nowhere.
    #[default]
    None,
    /// To a parameter.
    Param {
        /// Which.
        id: ParamId,
        /// Whether the gradient passes a view on the way.
        view: bool,
    },
    /// To a node.
    Node {
        /// Which.
        id: NodeId,
        /// Which of its outputs the gradient belongs to.
        output: u8,
        /// Whether the gradient passes a view on the way.
        view: bool,
    },
}

impl Edge {
    /// The edge to a tensor's origin.
    pub const fn to(source: Source) -> Self {
        match source {
            Source::None | Source::Recomputed => Self::None,
            Source::Param { id, view } => Self::Param { id, view },
            Source::Node { id, output, view } => Self::Node { id, output, view },
        }
    }

    /// Whether a gradient is wanted.
    pub const fn wanted(self) -> bool {
        !matches!(self, Self::None)
    }
}

/// A tensor saved for backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedSlot {
    /// Nothing.
    Empty,
    /// Held by the node.
    Held(StorageId),
    /// To be recomputed: a checkpoint and the slot in it.
    Deferred {
        /// Which checkpoint.
        frame: FrameId,
        /// Which of its saved tensors, in saving order.
        slot: u32,
    },
}

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
    /// One output element per gradient element: a new tensor of the input's dtype.
    Unary,
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
    /// Matrix product of `[rows, inner]` with a parameter.
    Linear(Product),
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
    /// Layer norm.
    LayerNorm {
        /// Rows.
        rows: u64,
        /// Columns.
        columns: u64,
    },
    /// Dropout: the gradient times the mask.
    Dropout,
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

/// Shape of a fused attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    /// Which kernel.
    pub kernel: AttentionKernel,
    /// Sequences.
    pub batch: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Tokens per sequence.
    pub tokens: u64,
    /// Elements per query and key head.
    pub head_dim: u64,
    /// Elements per value head.
    pub value_dim: u64,
    /// Whether a token sees only itself and those before it.
    pub causal: bool,
}

/// Most tensors that one node saves: mask, key, query, value and four results of attention.
pub const MAX_SAVED: usize = 8;

/// A node of the autograd graph.
#[derive(Debug)]
pub struct Node {
    /// The primitive.
    pub prim: Prim,
    /// Where it was recorded.
    pub scope: Scope,
    /// Its rule.
    pub backward: Backward,
    /// Where the gradients of its inputs go.
    pub edges: [Edge; 3],
    /// Element type of the first input.
    pub dtype: DType,
    /// Tensors kept for backward, in saving order.
    pub saved: [SavedSlot; MAX_SAVED],
    /// How many.
    pub n_saved: u8,
    /// Gradients of its outputs that have arrived.
    pub grads: [Option<Tensor>; 3],
    /// Gradients still to come.
    pub pending: u32,
    /// Whether it has run.
    pub done: bool,
}

impl Node {
    /// A node without edges and saved tensors.
    pub const fn new(prim: Prim, backward: Backward, scope: Scope) -> Self {
        Self {
            prim,
            scope,
            backward,
            edges: [Edge::None; 3],
            dtype: DType::F32,
            saved: [SavedSlot::Empty; MAX_SAVED],
            n_saved: 0,
            grads: [None, None, None],
            pending: 0,
            done: false,
        }
    }

    /// Adds a saved tensor.
    pub fn push_saved(&mut self, slot: SavedSlot) {
        self.saved[usize::from(self.n_saved)] = slot;
        self.n_saved += 1;
    }
}

/// A low-rank adapter beside the weight of a projection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adapter {
    /// `lora_A`: `[rank, inputs]`.
    pub lora_a: ParamId,
    /// `lora_B`: `[outputs, rank]`.
    pub lora_b: ParamId,
    /// Dropout probability of its input.
    pub dropout: f64,
}

impl Adapter {
    /// Element type of the factors: peft turns half-precision ones to fp32
    /// (`autocast_adapter_dtype`, on by default).
    pub const DTYPE: DType = DType::F32;
}

/// A parameter.
#[derive(Debug)]
pub struct Param {
    /// Its path in the model, such as `model.layers.3.mlp.up_proj.weight`.
    pub name: String,
    /// The layer that it belongs to.
    pub layer: Option<u32>,
    /// Its bytes.
    pub storage: StorageId,
    /// Its shape.
    pub shape: Shape,
    /// Its element type.
    pub dtype: DType,
    /// Whether it gets a gradient.
    pub trainable: bool,
    /// The adapter that the projection with this weight has.
    pub adapter: Option<Adapter>,
    /// Whether what is looked up in this table is made to require a gradient
    /// (`enable_input_require_grads`).
    pub hooked: bool,
    /// Its gradient.
    pub grad: Option<StorageId>,
    /// What the optimizer keeps for it.
    pub states: Vec<StorageId>,
    /// Its copy in autocast's dtype, while the cache holds one, with its node.
    pub cast: Option<(StorageId, Source)>,
    /// Gradients still to come in this backward pass.
    pub pending: u32,
    /// Gradient that waits for others of the same pass.
    pub arriving: Option<Tensor>,
}

impl Param {
    /// A trainable parameter without gradient.
    pub(super) const fn new(
        name: String,
        layer: Option<u32>,
        storage: StorageId,
        shape: Shape,
        dtype: DType,
    ) -> Self {
        Self {
            name,
            layer,
            storage,
            shape,
            dtype,
            trainable: true,
            adapter: None,
            hooked: false,
            grad: None,
            states: Vec::new(),
            cast: None,
            pending: 0,
            arriving: None,
        }
    }
}

/// A checkpointed layer.
#[derive(Debug)]
pub struct Frame {
    /// Which layer.
    pub layer: u32,
    /// The layer's input, kept for the second run.
    pub input: Option<Tensor>,
    /// The layer's other arguments: mask and rotary tables.
    pub arguments: Vec<Tensor>,
    /// Tensors that its nodes save.
    pub n_slots: u32,
    /// Slots that their nodes have used.
    pub n_used: u32,
    /// The tensors, after the second run.
    pub slots: Vec<Option<StorageId>>,
    /// Whether the second run has happened.
    pub recomputed: bool,
    /// Autocast's dtype in the first run.
    pub autocast: Option<DType>,
}

impl Frame {
    /// A frame before its first run.
    pub const fn new(
        layer: u32,
        input: Tensor,
        arguments: Vec<Tensor>,
        autocast: Option<DType>,
    ) -> Self {
        Self {
            layer,
            input: Some(input),
            arguments,
            n_slots: 0,
            n_used: 0,
            slots: Vec::new(),
            recomputed: false,
            autocast,
        }
    }
}
