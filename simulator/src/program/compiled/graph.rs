//! The traced forward pass as values, and what of them the backward pass asks for.
//!
//! A node of autograd becomes the operations that it is decomposed into (`torch/_inductor/decomposition.py`,
//! `torch/_decomp/decompositions.py`): a layer norm its statistics, the normalised rows and the result;
//! a softmax its row statistics and the probabilities; a dropout its mask and the product with it.

use std::collections::BTreeMap;

use crate::tape::{
    Backward, Edge, MAX_INPUTS, Node, NodeId, ParamId, Prim, SavedSlot, Scope, StorageId, Tape,
};
use crate::tensor::DType;
use crate::wire::timeline::Category;

/// What the partitioner and the code generator know of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A parameter, a buffer or the data.
    Given,
    /// A table or mask that no gradient reaches.
    Constant,
    /// A product, an attention, a convolution: a kernel of a library, never fused nor recomputed.
    Heavy,
    /// A look-up: never recomputed, but read in place by whatever uses it.
    LookUp,
    /// Random numbers: never recomputed.
    Random,
    /// A reduction of rows: never recomputed (`ban_if_reduction`).
    Reduction,
    /// Fused and recomputed at will.
    Pointwise,
    /// Another shape of the same bytes.
    View,
}

impl Kind {
    /// Whether it can stand in one kernel with its neighbours (`OpTypes.is_fusible`).
    pub(super) const fn fuses(self) -> bool {
        matches!(self, Self::Random | Self::Reduction | Self::Pointwise | Self::View)
    }
}

/// One value of the forward pass.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) bytes: u64,
    pub(super) kind: Kind,
    /// Values that it is computed from.
    pub(super) inputs: Vec<usize>,
    /// Values that are computed from it.
    pub(super) users: Vec<usize>,
    /// Whether the backward pass reads it.
    pub(super) required: bool,
    /// Whether a kernel of a library reads it there (`is_materialized_backwards`).
    pub(super) whole: bool,
    /// Whether it belongs to the backward graph alone, where a library's kernel reads it.
    pub(super) late: bool,
    pub(super) prim: Prim,
    pub(super) scope: Scope,
    pub(super) category: Category,
}

/// The values in the order in which they are computed, and those of each node.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) values: Vec<Value>,
    /// The result of each node.
    pub(super) results: Vec<usize>,
    /// Values that each node reads in backward.
    pub(super) reads: Vec<Vec<usize>>,
    /// The inputs of each node that a gradient reaches, by argument.
    pub(super) arguments: Vec<[Option<usize>; MAX_INPUTS]>,
    by_storage: BTreeMap<StorageId, usize>,
    params: BTreeMap<ParamId, usize>,
    masks: BTreeMap<(Prim, u64), usize>,
    casts: BTreeMap<(usize, u64), usize>,
    /// Element type that autocast, which the backward graph is traced under too, gives to products.
    autocast: Option<DType>,
}

impl Graph {
    /// From a tape whose forward pass has just ended; `n_before` storages existed before it.
    pub(super) fn of(tape: &Tape, n_before: usize, autocast: Option<DType>) -> Self {
        let mut graph = Self { autocast, ..Self::default() };
        for index in 0..tape.n_nodes() {
            graph.add_node(tape, NodeId::new(index), n_before);
        }
        for value in 0..graph.values.len() {
            for input in graph.values[value].inputs.clone() {
                if !graph.values[input].users.contains(&value) {
                    graph.values[input].users.push(value);
                }
            }
        }
        graph
    }

    fn add(&mut self, node: &Node, kind: Kind, bytes: u64, inputs: Vec<usize>) -> usize {
        let (prim, scope) = (node.prim, node.scope);
        let users = Vec::new();
        let (required, whole, late) = (false, false, false);
        let category = Category::Temporaries;
        self.values.push(Value {
            bytes,
            kind,
            inputs,
            users,
            required,
            whole,
            late,
            prim,
            scope,
            category,
        });
        self.values.len() - 1
    }

    fn add_node(&mut self, tape: &Tape, id: NodeId, n_before: usize) {
        let node = tape.node(id);
        let bytes_of = |storage: StorageId| match storage {
            StorageId::NONE => 0,
            _ => tape.recorded().storages[storage.index()].bytes,
        };
        let arguments = node.edges.map(|edge| self.input(tape, node, edge));
        let inputs: Vec<usize> = arguments.into_iter().flatten().collect();
        let own = node.made;
        let bytes = bytes_of(own);
        let kind = self.kind(node, &inputs);
        let (result, mut reads) = self.decompose(node, kind, bytes, &inputs);
        let heavy = kind == Kind::Heavy;
        // What decomposition reads instead stands in `reads` already.
        let mut saved = Vec::new();
        for slot in node.saved[..usize::from(node.n_saved)].iter().filter(|_| reads.is_empty()) {
            let SavedSlot::Held(storage) = *slot else { continue };
            saved.push(storage);
        }
        for storage in saved.into_iter().filter(|&storage| storage != StorageId::NONE) {
            let read = if storage == own {
                result
            } else {
                let known = self.by_storage.get(&storage).copied();
                known.unwrap_or_else(|| self.leaf(node, storage, bytes_of(storage), n_before))
            };
            let seen = self.as_product_reads(node, read);
            self.values[read].whole |= heavy && seen == read;
            reads.push(seen);
            if read != result && !self.values[result].inputs.contains(&read) {
                self.values[result].inputs.push(read);
            }
        }
        if own != StorageId::NONE && kind != Kind::View {
            self.values[result].category = tape.recorded().storages[own.index()].category;
        }
        for &read in &reads {
            self.values[read].required = true;
        }
        if kind != Kind::View && own != StorageId::NONE {
            self.by_storage.insert(own, result);
        }
        self.arguments.push(arguments);
        self.results.push(result);
        self.reads.push(reads);
    }

    /// Element type of the gradients that a node's products take and make.
    pub(super) fn gradient_dtype(&self, node: &Node) -> DType {
        match self.autocast {
            Some(dtype) if matches!(node.backward, Backward::Bmm(_)) => dtype,
            _ => node.dtype,
        }
    }

    /// What a product of the backward graph reads of a value: under autocast its cast, which is no part of the
    /// forward graph and so no reason to keep it.
    fn as_product_reads(&mut self, node: &Node, value: usize) -> usize {
        let dtype = self.gradient_dtype(node);
        if dtype == node.dtype {
            return value;
        }
        let bytes = self.values[value].bytes / node.dtype.bytes() * dtype.bytes();
        let known = self.values.len();
        let cast = self.cast(node, bytes, value);
        self.values[cast].late |= known == cast;
        cast
    }

    /// A cast; equal ones are one value (`fx_graph_cse`).
    fn cast(&mut self, node: &Node, bytes: u64, value: usize) -> usize {
        if let Some(&known) = self.casts.get(&(value, bytes)) {
            return known;
        }
        let cast = self.add(node, Kind::Pointwise, bytes, Vec::from([value]));
        self.casts.insert((value, bytes), cast);
        cast
    }

    fn input(&mut self, tape: &Tape, node: &Node, edge: Edge) -> Option<usize> {
        match edge {
            Edge::None => None,
            Edge::Node { id, .. } => Some(self.results[id.index()]),
            Edge::Param { id, .. } => {
                if let Some(&value) = self.params.get(&id) {
                    return Some(value);
                }
                let param = tape.param(id);
                let bytes = param.elements() * param.dtype.bytes();
                let value = self.add(node, Kind::Given, bytes, Vec::new());
                self.params.insert(id, value);
                self.by_storage.insert(param.storage, value);
                Some(value)
            }
        }
    }

    /// What no node made. Equal masks of all layers are one value (`fx_graph_cse`).
    fn leaf(&mut self, node: &Node, storage: StorageId, bytes: u64, n_before: usize) -> usize {
        let given = storage.index() < n_before;
        let shared = !given && node.prim == Prim::Sdpa;
        if let Some(&value) = self.masks.get(&(node.prim, bytes)).filter(|_| shared) {
            return value;
        }
        let kind = if given { Kind::Given } else { Kind::Constant };
        let value = self.add(node, kind, bytes, Vec::new());
        if shared {
            self.masks.insert((node.prim, bytes), value);
        }
        self.by_storage.insert(storage, value);
        value
    }

    fn kind(&self, node: &Node, inputs: &[usize]) -> Kind {
        match node.backward {
            Backward::Linear(_)
            | Backward::Bmm(_)
            | Backward::Sdpa(_)
            | Backward::Grouped(_)
            | Backward::Patches(_) => Kind::Heavy,
            Backward::Embedding { .. } => Kind::LookUp,
            Backward::Mean { .. } | Backward::NllLoss { .. } => Kind::Reduction,
            // Gradients of parts are parts: these only rename bytes.
            Backward::Split { .. } => Kind::View,
            Backward::Reshape { .. }
            | Backward::Transpose
            | Backward::HeadsFirst { .. }
            | Backward::Slice { .. }
            | Backward::SumToInput { .. }
                if node.made == StorageId::NONE
                    || inputs.first().is_some_and(|&input| {
                        self.by_storage.get(&node.made) == Some(&self.base(input))
                    }) =>
            {
                Kind::View
            }
            _ => Kind::Pointwise,
        }
    }

    /// The value whose bytes a view shows.
    pub(super) fn base(&self, mut value: usize) -> usize {
        while self.values[value].kind == Kind::View {
            let Some(&input) = self.values[value].inputs.first() else { break };
            value = input;
        }
        value
    }

    /// The result, and what its backward reads beside what the node saved.
    fn decompose(
        &mut self,
        node: &Node,
        kind: Kind,
        bytes: u64,
        inputs: &[usize],
    ) -> (usize, Vec<usize>) {
        let elements = bytes / node.dtype.bytes();
        let with = |graph: &mut Self, kind, bytes, extra: &[usize]| {
            let inputs = inputs.iter().chain(extra).copied().collect();
            graph.add(node, kind, bytes, inputs)
        };
        match node.backward {
            Backward::LayerNorm { rows, .. } => {
                let statistics = with(self, Kind::Reduction, 4 * rows, &[]);
                let normalised = with(self, Kind::Pointwise, 4 * elements, &[statistics]);
                let result = self.add(node, Kind::Pointwise, bytes, Vec::from([normalised]));
                (result, Vec::from([normalised, statistics]))
            }
            Backward::Softmax { .. } | Backward::LogSoftmax { .. } => {
                let rows = self.values[self.base(inputs[0])].bytes / 1024;
                let statistics = with(self, Kind::Reduction, rows, &[]);
                (with(self, Kind::Pointwise, bytes, &[statistics]), Vec::new())
            }
            Backward::Cast { .. } if kind == Kind::Pointwise => {
                (self.cast(node, bytes, inputs[0]), Vec::new())
            }
            Backward::Dropout => {
                let mask = self.add(node, Kind::Random, elements, Vec::new());
                (with(self, Kind::Pointwise, bytes, &[mask]), Vec::from([mask]))
            }
            Backward::Unary if node.prim == Prim::Relu => {
                let result = with(self, Kind::Pointwise, bytes, &[]);
                let positive = self.add(node, Kind::Pointwise, elements, Vec::from([result]));
                (result, Vec::from([positive]))
            }
            _ => (with(self, kind, bytes, &[]), Vec::new()),
        }
    }
}
