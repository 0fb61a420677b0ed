//! Autograd's records: nodes, edges, parameters, checkpoints.

use crate::tensor::{DType, Layout, Shape};
use crate::wire::scenario::BaseFormat;

use super::Tensor;
use super::hooks::{Shard, Split};
use super::label::{Prim, Scope};
use super::record::StorageId;
use super::rule::Backward;

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
    /// In host memory: its number among what is.
    Offloaded(u32),
    /// To be recomputed: a checkpoint and the slot in it.
    Deferred {
        /// Which checkpoint.
        frame: FrameId,
        /// Which of its saved tensors, in saving order.
        slot: u32,
    },
}

/// Most inputs of one node that a gradient reaches: query, key, value and bias of attention.
pub const MAX_INPUTS: usize = 4;

/// Where the gradients of a node's inputs go, in argument order.
pub type Edges = [Edge; MAX_INPUTS];

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
    pub edges: Edges,
    /// What few nodes have.
    pub more: Option<Box<More>>,
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
    /// The storage of its result; none where it has several.
    pub made: StorageId,
}

/// Inputs and outputs beyond those that most nodes have.
#[derive(Debug, Default)]
pub struct More {
    /// Where parts of its gradient go, and their shapes, when it joined any number of tensors.
    pub parts: Vec<(Edge, Shape)>,
    /// Where the gradients of further inputs go, which all are views of the first one's.
    pub edges: Vec<Edge>,
    /// Gradients of further outputs that have arrived.
    pub grads: Vec<Tensor>,
}

impl Node {
    /// A node without edges and saved tensors.
    pub const fn new(prim: Prim, backward: Backward, scope: Scope) -> Self {
        Self {
            prim,
            scope,
            backward,
            edges: [Edge::None; MAX_INPUTS],
            more: None,
            dtype: DType::F32,
            saved: [SavedSlot::Empty; MAX_SAVED],
            n_saved: 0,
            grads: [None, None, None],
            pending: 0,
            done: false,
            made: StorageId::NONE,
        }
    }

    /// What few nodes have, to change.
    pub fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
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
    /// (`autocast_adapter_dtype`, on by default); else they have that of the weights.
    pub const fn dtype(autocast: bool, weights: DType) -> DType {
        if autocast { DType::F32 } else { weights }
    }
}

/// A parameter.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts of a parameter that do not depend on each other"
)]
pub struct Param {
    /// Its path in the model, such as `model.layers.3.mlp.up_proj.weight`.
    pub name: String,
    /// The layer that it belongs to.
    pub layer: Option<u32>,
    /// Its bytes; none of its own where ranks hold parts of it.
    pub storage: StorageId,
    /// Its shape, as the model computes with it.
    pub shape: Shape,
    /// Its element type, as the model computes with it.
    pub dtype: DType,
    /// The rank's part, where it is dealt out.
    pub shard: Option<Shard>,
    /// How ranks share the product with it; its shape is then the rank's.
    pub split: Option<Split>,
    /// The parameter that products take instead: sharding an output projection breaks its tie with
    /// the embedding.
    pub untied: Option<ParamId>,
    /// Its memory order.
    pub layout: Layout,
    /// Whether it gets a gradient.
    pub trainable: bool,
    /// How its bytes are held, where they are not those that it is computed with.
    pub base: BaseFormat,
    /// The adapter that the projection with this weight has.
    pub adapter: Option<Adapter>,
    /// Whether what is looked up in this table is made to require a gradient
    /// (`enable_input_require_grads`).
    pub hooked: bool,
    /// Whether its gradients are added to a buffer as they come, and are not kept (`main_grad`).
    pub main_grad: bool,
    /// Whether it gets gradients and no optimizer has it: they add up over steps.
    pub unoptimized: bool,
    /// Its gradient, or that of the rank's part.
    pub grad: Option<StorageId>,
    /// Gradient of the whole parameter, where ranks hold parts of it, until it is reduced.
    pub whole_grad: Option<StorageId>,
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
            shard: None,
            split: None,
            untied: None,
            layout: Layout::Contiguous,
            trainable: true,
            base: BaseFormat::Whole,
            adapter: None,
            hooked: false,
            main_grad: false,
            unoptimized: false,
            grad: None,
            whole_grad: None,
            states: Vec::new(),
            cast: None,
            pending: 0,
            arriving: None,
        }
    }
}

impl Param {
    /// Elements of all ranks together.
    pub const fn elements(&self) -> u64 {
        match self.split {
            Some(Split::Columns { ranks, .. } | Split::Rows { ranks }) => {
                self.shape.elements() * ranks
            }
            Some(Split::Whole) | None => self.shape.elements(),
        }
    }

    /// Elements that the rank keeps and trains.
    pub const fn local_elements(&self) -> u64 {
        match self.shard {
            Some(shard) => shard.elements,
            None => self.shape.elements(),
        }
    }

    /// Element type of what the rank keeps and trains.
    pub const fn local_dtype(&self) -> DType {
        match self.shard {
            Some(shard) => shard.dtype,
            None => self.dtype,
        }
    }

    /// Where autograd puts its gradient.
    pub const fn grad_slot(&mut self) -> &mut Option<StorageId> {
        if self.shard.is_some() { &mut self.whole_grad } else { &mut self.grad }
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
