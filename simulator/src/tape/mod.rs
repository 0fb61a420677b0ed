//! The tape: what the framework does to memory while a program runs.
//!
//! *Storages* are counted references to bytes: an allocation is recorded when one is made, a free
//! when its last reference goes. *Tensors* are handles to storages. *Nodes* are autograd's record
//! of how a tensor was made; they hold the tensors saved for backward. The tape knows no primitive's
//! rule: those are in `primitives`.
//!
//! A [`Tensor`] is a held reference: it must be given back with [`Tape::release`], where Python
//! would drop its last name for it. Nothing is released implicitly, so that the order of frees
//! is the order written down.

mod graphs;
mod hooks;
mod label;
mod node;
mod nodes;
mod offload;
mod parallel;
mod parameters;
mod record;
mod rule;

use hooks::Watched;
pub use hooks::{Hooks, Shard, Sharding, Split};
pub use label::{Block, Prim, Scope};
pub use node::{
    Adapter, Edge, Edges, Frame, FrameId, MAX_INPUTS, MAX_SAVED, Node, NodeId, Param, ParamId,
    SavedSlot, Source,
};
use nodes::Nodes;
use offload::Offloaded;
pub use parallel::{BiasDropoutAdd, EngineAttention, Megatron, ParallelProduct, Part, Runner};
pub use record::{
    Mark, OpRecord, PhaseStart, Recorded, Request, Slot, SlotKind, Storage, StorageId,
};
pub use rule::{Attention, AttentionLibrary, Backward, Batched, Conv2d, Grouped, Patches, Product};

use crate::clock::{Issue, Work};
use crate::tensor::{DType, Layout, Shape};
use crate::wire::timeline::{Category, PhaseKind};

/// A handle to a tensor: one counted reference to its storage.
#[derive(Debug)]
#[must_use = "a tensor is released explicitly, where Python would drop it"]
pub struct Tensor {
    /// The bytes behind it.
    pub storage: StorageId,
    /// Its shape.
    pub shape: Shape,
    /// Its element type.
    pub dtype: DType,
    /// Its memory order.
    pub layout: Layout,
    /// What autograd knows of its origin.
    pub source: Source,
    /// Whether it is a view whose base the framework keeps alive.
    pub view: bool,
}

impl Tensor {
    /// Bytes of its elements.
    pub const fn bytes(&self) -> u64 {
        self.shape.elements() * self.dtype.bytes()
    }

    /// Whether a gradient flows through it.
    pub const fn requires_grad(&self) -> bool {
        !matches!(self.source, Source::None)
    }
}

/// Settings of the machine and the framework that change what primitives allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Streaming multiprocessors.
    pub sm_count: u64,
    /// Resident threads per multiprocessor.
    pub threads_per_sm: u64,
    /// Compute capability, major and minor; (0, 0) when it is not an NVIDIA GPU.
    pub capability: (u32, u32),
}

/// What happens to tensors that a primitive keeps for backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saving {
    /// Nothing is recorded (`torch.no_grad`).
    Off,
    /// Nodes hold them.
    Direct,
    /// A checkpoint's first run: only slots are counted.
    Deferred(FrameId),
    /// A checkpoint's second run: the frame's slots are filled in the same order.
    Refill(FrameId),
    /// A checkpoint's second run after its last slot: nothing runs any more.
    Stopped,
}

/// A library that keeps a workspace for each thread that calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// cuBLAS.
    Blas,
    /// cuBLASLt, which adds a bias in the product's epilogue.
    BlasLt,
    /// Transformer Engine's own workspace for cuBLASLt: one for all threads.
    Engine,
}

impl Library {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Blas, Self::BlasLt, Self::Engine];
}

/// The tape.
#[derive(Debug)]
pub struct Tape {
    /// The machine.
    pub device: Device,
    record: Recorded,
    nodes: Nodes,
    params: Vec<Param>,
    /// Element types and bytes of the modules' buffers.
    buffers: Vec<(DType, u64)>,
    frames: Vec<Frame>,
    /// Leaves that are no parameters, until the graph goes.
    leaves: Vec<NodeId>,
    saving: Saving,
    scope: Scope,
    autocast: Option<DType>,
    issue: Issue,
    /// Workspaces of each library, of the forward thread and of autograd's thread.
    workspaces: [[StorageId; 2]; Library::ALL.len()],
    hooks: Option<Box<dyn Hooks>>,
    watched: Watched,
    offloaded: Offloaded,
    sharding: Option<Sharding>,
    /// Megatron-core's buffer for what is needed at once and never kept, with its bytes.
    scratch_buffer: (StorageId, u64),
    /// Transformer Engine's dummies of gradients, by shape.
    dummies: Vec<(Shape, StorageId)>,
    /// What nodes keep that a function records although nothing around it is recorded.
    chained: Option<Vec<StorageId>>,
    /// What modules hold under names of their own from one forward to the next.
    attributes: Vec<StorageId>,
    traced: bool,
    untimed: bool,
}

impl Tape {
    /// An empty tape.
    pub fn new(device: Device) -> Self {
        Self {
            device,
            record: Recorded::roomy(),
            nodes: Nodes::roomy(),
            params: Vec::new(),
            buffers: Vec::new(),
            frames: Vec::new(),
            leaves: Vec::new(),
            saving: Saving::Off,
            scope: Scope::default(),
            autocast: None,
            issue: Issue::Python,
            workspaces: [[StorageId::NONE; 2]; Library::ALL.len()],
            hooks: None,
            watched: Watched::default(),
            offloaded: Offloaded::default(),
            sharding: None,
            scratch_buffer: (StorageId::NONE, 0),
            dummies: Vec::new(),
            chained: None,
            attributes: Vec::new(),
            traced: false,
            untimed: false,
        }
    }

    // ---- where we are ----

    /// Names the block and module that the next operations belong to.
    pub fn enter(&mut self, block: Block, module: &'static str) {
        self.hook_weight_left();
        self.scope.block = block;
        self.scope.module = module;
        self.hook_entered();
    }

    /// Names the layer that the next operations belong to.
    pub fn enter_layer(&mut self, layer: Option<u32>) {
        if self.scope.layer == layer {
            return;
        }
        self.hook_weight_left();
        if let Some(left) = self.scope.layer {
            self.hook_layer(left, false);
        }
        self.scope.layer = layer;
        self.record.mark(layer);
        if let Some(entered) = layer {
            self.hook_layer(entered, true);
        }
    }

    /// Where we are.
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// Goes back to a place.
    pub fn set_scope(&mut self, scope: Scope) {
        self.enter_layer(scope.layer);
        self.scope = scope;
    }

    /// Starts a phase of the step.
    pub fn phase(&mut self, kind: PhaseKind, micro_batch: u32) {
        self.record.phase(kind, micro_batch);
    }

    /// Whether the program is traced for a compiler (`is_tracing` in transformers' `masking_utils.py`):
    /// masks are then made even where they could be left out.
    pub const fn traced(&self) -> bool {
        self.traced
    }

    /// Says that the program is traced for a compiler.
    pub const fn trace(&mut self) {
        self.traced = true;
    }

    // ---- storages ----

    /// Allocates bytes; nothing is recorded for zero bytes, as in the framework.
    pub fn allocate(&mut self, bytes: u64, prim: Prim) -> StorageId {
        if self.stopped() {
            return StorageId::NONE;
        }
        self.record.allocate(bytes, prim, self.scope)
    }

    /// Allocates a tensor.
    pub fn empty(&mut self, shape: Shape, dtype: DType, prim: Prim) -> Tensor {
        let storage = self.allocate(shape.elements() * dtype.bytes(), prim);
        Tensor {
            storage,
            shape,
            dtype,
            layout: Layout::Contiguous,
            source: Source::None,
            view: false,
        }
    }

    /// Allocates and frees scratch bytes.
    pub fn scratch(&mut self, bytes: u64, prim: Prim) {
        if 0 < bytes {
            let storage = self.allocate(bytes, prim);
            self.release_storage(storage);
        }
    }

    /// Another handle to the same tensor.
    pub fn share(&mut self, tensor: &Tensor) -> Tensor {
        self.record.retain(tensor.storage);
        Tensor { ..*tensor }
    }

    /// A handle to a storage whose tensor is known only by its shape and dtype.
    pub fn handle(&mut self, storage: StorageId, shape: Shape, dtype: DType) -> Tensor {
        self.record.retain(storage);
        Tensor {
            storage,
            shape,
            dtype,
            layout: Layout::Contiguous,
            source: Source::None,
            view: false,
        }
    }

    /// Another handle to the same bytes, seen with another shape: a view.
    pub fn view(&mut self, tensor: &Tensor, shape: Shape) -> Tensor {
        debug_assert_eq!(shape.elements(), tensor.shape.elements(), "a view keeps its elements");
        self.part(tensor, shape)
    }

    /// Part of a tensor's memory, not copied: its storage lives on as a whole.
    pub fn part(&mut self, tensor: &Tensor, shape: Shape) -> Tensor {
        debug_assert!(shape.elements() <= tensor.shape.elements(), "a part is no larger");
        self.record.retain(tensor.storage);
        Tensor { shape, view: true, source: tensor.source.through_view(), ..*tensor }
    }

    /// Gives a reference back; the bytes are freed with the last one.
    #[expect(clippy::needless_pass_by_value, reason = "the handle is consumed")]
    pub fn release(&mut self, tensor: Tensor) {
        self.record.release(tensor.storage);
    }

    /// One more reference to a storage.
    pub fn retain_storage(&mut self, storage: StorageId) {
        self.record.retain(storage);
    }

    /// Gives a storage's reference back.
    pub fn release_storage(&mut self, storage: StorageId) {
        self.record.release(storage);
    }

    /// References to the storage.
    pub fn references(&self, storage: StorageId) -> u32 {
        self.record.references(storage)
    }

    /// Sets what a storage is for.
    pub fn categorise(&mut self, storage: StorageId, category: Category) {
        self.record.categorise(storage, category);
    }

    /// `torch.cuda.empty_cache()`.
    pub fn empty_cache(&mut self) {
        self.record.empty_cache();
    }

    /// Says that a storage is a parameter's gradient or state.
    pub fn own(&mut self, storage: StorageId, owner: ParamId, category: Category) {
        self.record.own(storage, owner);
        self.record.categorise(storage, category);
    }

    // ---- work ----

    /// Records that the device gets work to do.
    pub fn run(&mut self, prim: Prim, work: Work) {
        if self.untimed || self.saving == Saving::Stopped {
            return;
        }
        let issue = self.issue;
        if issue == Issue::Node {
            self.issue = Issue::Inner;
        }
        self.record.operation(prim, self.scope, Work { issue, ..work });
    }

    /// Who issues the next operations: Python, or a node whose first operation pays for it.
    pub const fn issued_by(&mut self, issue: Issue) {
        self.issue = issue;
    }

    // ---- autocast ----

    /// The dtype that autocast casts matrix products to, when it is on.
    pub const fn autocast(&self) -> Option<DType> {
        self.autocast
    }

    /// Switches autocast on or off.
    pub const fn set_autocast(&mut self, dtype: Option<DType>) {
        self.autocast = dtype;
    }

    // ---- libraries ----

    /// Whether the thread already has the library's workspace.
    pub fn has_workspace(&self, library: Library, backward: bool) -> bool {
        self.workspaces[library as usize][usize::from(backward)] != StorageId::NONE
    }

    /// Keeps the thread's workspace of the library for the rest of the process.
    pub fn set_workspace(&mut self, library: Library, backward: bool, storage: StorageId) {
        self.workspaces[library as usize][usize::from(backward)] = storage;
    }

    // ---- autograd ----

    /// Switches recording for backward on or off.
    pub fn set_grad_enabled(&mut self, enabled: bool) {
        self.saving = if enabled { Saving::Direct } else { Saving::Off };
    }

    /// Whether a node is recorded for an operation on these tensors.
    pub fn records(&self, inputs: &[&Tensor]) -> bool {
        !matches!(self.saving, Saving::Off) && inputs.iter().any(|t| t.requires_grad())
    }

    /// Whether a node holds what it saves: not in a checkpoint's first run.
    pub const fn holds_saved(&self) -> bool {
        matches!(self.saving, Saving::Direct | Saving::Refill(_) | Saving::Stopped)
    }

    /// Whether a checkpoint's second run has passed its last saved tensor.
    pub const fn stopped(&self) -> bool {
        matches!(self.saving, Saving::Stopped)
    }

    /// Begins a node. Saved tensors are added with [`Tape::save`] before [`Tape::finish_node`].
    pub fn begin_node(&self, prim: Prim, backward: Backward, inputs: &[&Tensor]) -> Node {
        let mut node = Node::new(prim, backward, self.scope);
        node.dtype = inputs.first().map_or(DType::F32, |t| t.dtype);
        for (edge, input) in node.edges.iter_mut().zip(inputs) {
            *edge = Edge::to(input.source);
        }
        node
    }

    /// Keeps a tensor for the node's backward.
    pub fn save(&mut self, node: &mut Node, tensor: &Tensor) {
        let storage = tensor.storage;
        let packed = if self.saving == Saving::Direct { self.pack(tensor) } else { None };
        if let Some(slot) = packed {
            return node.push_saved(slot);
        }
        let slot = match self.saving {
            Saving::Direct => {
                self.record.retain(storage);
                self.record.keep(storage);
                SavedSlot::Held(storage)
            }
            Saving::Deferred(frame) => {
                let slot = self.frames[frame.index()].n_slots;
                self.frames[frame.index()].n_slots += 1;
                SavedSlot::Deferred { frame, slot }
            }
            Saving::Refill(frame) => {
                self.record.retain(storage);
                self.record.keep(storage);
                let frame_data = &mut self.frames[frame.index()];
                frame_data.slots.push(Some(storage));
                if frame_data.slots.len() == frame_data.n_slots as usize {
                    self.saving = Saving::Stopped;
                }
                SavedSlot::Empty
            }
            Saving::Off | Saving::Stopped => SavedSlot::Empty,
        };
        node.push_saved(slot);
    }

    /// Ends a node: the engine will run it when the gradients of its outputs have arrived.
    pub fn finish_node(&mut self, node: Node) -> Source {
        match self.saving {
            Saving::Direct | Saving::Deferred(_) => {
                let more = node.more.iter().flat_map(|more| {
                    let parts = more.parts.iter().map(|&(edge, _)| edge);
                    parts.chain(more.edges.iter().copied())
                });
                for edge in node.edges.into_iter().chain(more) {
                    match edge {
                        Edge::Node { id, .. } => self.nodes[id].pending += 1,
                        Edge::Param { id, .. } => self.params[id.index()].pending += 1,
                        Edge::None => {}
                    }
                }
                let id = self.nodes.push(node);
                Source::Node { id, output: 0, view: false }
            }
            // The second run's graph is never used: its tensors only need to count as differentiable.
            Saving::Refill(_) | Saving::Stopped => Source::Recomputed,
            Saving::Off => Source::None,
        }
    }

    /// `tensor.requires_grad_(True)` on a tensor that no node made: a leaf, which the graph holds
    /// together with the gradient that it gets.
    pub fn require_grad(&mut self, tensor: Tensor) -> Tensor {
        match self.saving {
            Saving::Direct | Saving::Deferred(_) if !tensor.requires_grad() => {}
            Saving::Refill(_) | Saving::Stopped => {
                return Tensor { source: Source::Recomputed, ..tensor };
            }
            _ => return tensor,
        }
        let mut node = self.begin_node(Prim::Accumulate, Backward::Leaf, &[]);
        // The graph holds its leaves itself: no checkpoint recomputes them.
        self.record.retain(tensor.storage);
        self.record.keep(tensor.storage);
        node.push_saved(SavedSlot::Held(tensor.storage));
        let source = self.finish_node(node);
        if let Source::Node { id, .. } = source {
            self.leaves.push(id);
        }
        Tensor { source, ..tensor }
    }

    /// Lets go of the graph: its leaves that are no parameters, each gradient first.
    pub fn release_graph(&mut self) {
        for id in core::mem::take(&mut self.leaves) {
            let node = &mut self.nodes[id];
            let gradient = node.grads[0].take();
            let leaf = node.saved[0];
            if let Some(gradient) = gradient {
                self.release(gradient);
            }
            if let SavedSlot::Held(storage) = leaf {
                self.release_storage(storage);
            }
        }
        self.nodes.forget_done();
    }

    /// The node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    /// The node, to change.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id]
    }

    // ---- checkpoints ----

    /// Opens a checkpoint's first run over a layer whose input and other arguments the frame keeps
    /// until the layer's last saved tensor has been used.
    pub fn begin_checkpoint(
        &mut self,
        layer: u32,
        input: Tensor,
        arguments: Vec<Tensor>,
    ) -> FrameId {
        let id = FrameId::new(self.frames.len());
        for tensor in core::iter::once(&input).chain(&arguments) {
            self.record.keep(tensor.storage);
        }
        self.frames.push(Frame::new(layer, input, arguments, self.autocast));
        self.saving = Saving::Deferred(id);
        id
    }

    /// Closes a checkpoint's first run.
    pub fn end_checkpoint(&mut self) {
        self.saving = Saving::Direct;
    }

    /// Opens a checkpoint's second run.
    pub fn begin_recompute(&mut self, frame: FrameId) {
        self.saving = Saving::Refill(frame);
    }

    /// Closes a checkpoint's second run.
    pub fn end_recompute(&mut self, frame: FrameId) {
        debug_assert!(self.stopped(), "the second run fills every slot of the first");
        self.frames[frame.index()].recomputed = true;
        self.saving = Saving::Off;
    }

    /// A checkpoint.
    pub fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[id.index()]
    }

    /// A checkpoint, to change.
    pub fn frame_mut(&mut self, id: FrameId) -> &mut Frame {
        &mut self.frames[id.index()]
    }

    /// What was recorded.
    pub const fn recorded(&self) -> &Recorded {
        &self.record
    }

    /// Hands the record over and begins a new one over the storages still alive.
    ///
    /// Storages are numbered anew; `held` are the ones that the caller knows. The second result
    /// gives, for each storage of the new record, its number in the old one.
    ///
    /// # Panics
    ///
    /// When a node has not run, or a held storage is no longer alive: a bug of a block or rule.
    pub fn take_record(&mut self, held: &mut [StorageId]) -> (Recorded, Vec<u32>) {
        self.enter_layer(None);
        self.nodes.clear();
        self.frames.clear();
        let (next, renumbered, origin) = self.record.successor();
        let renumber = |id: &mut StorageId| *id = renumbered.of(*id);
        held.iter_mut().for_each(renumber);
        self.workspaces.as_flattened_mut().iter_mut().for_each(renumber);
        if let Some(hooks) = &mut self.hooks {
            hooks.storages().into_iter().for_each(renumber);
        }
        renumber(&mut self.scratch_buffer.0);
        self.dummies.iter_mut().for_each(|(_, storage)| renumber(storage));
        self.attributes.iter_mut().for_each(renumber);
        for param in &mut self.params {
            renumber(&mut param.storage);
            if let Some(shard) = &mut param.shard {
                renumber(&mut shard.storage);
            }
            param.grad.iter_mut().for_each(renumber);
            param.states.iter_mut().for_each(renumber);
        }
        (core::mem::replace(&mut self.record, next), origin)
    }
}
