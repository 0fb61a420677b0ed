//! Several graphs beside each other: leaves between pipeline stages and around checkpoints, and what
//! outlives a graph.

use super::node::{Edge, ParamId, Source};
use super::{Backward, Prim, Recorded, SlotKind, StorageId, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::timeline::Category;

impl Tape {
    /// Starts a slot of a pipeline's schedule.
    pub fn slot(&mut self, kind: SlotKind, chunk: usize, micro_batch: u64) {
        let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        self.record.slot(kind, number(chunk as u64), number(micro_batch));
    }

    /// Records no operations from now on: requests are all that is asked for.
    pub const fn leave_out_operations(&mut self) {
        self.untimed = true;
    }

    /// The record of a run that goes no further.
    pub fn into_record(self) -> Recorded {
        self.record
    }

    /// Megatron-core's `GlobalMemoryBuffer`: at least so many bytes that stay for the rest of the
    /// process; a larger request makes a new buffer before the old one goes.
    ///
    /// Source: `get_tensor` in megatron-core 0.19.2 (`megatron/core/utils.py`).
    pub fn global_buffer(&mut self, bytes: u64) {
        if self.scratch_buffer.1 < bytes {
            let storage = self.allocate(bytes, Prim::Workspace);
            let (old, _) = core::mem::replace(&mut self.scratch_buffer, (storage, bytes));
            self.release_storage(old);
        }
    }

    /// Transformer Engine's dummy in place of a gradient that was added to its buffer: one for each shape,
    /// for the rest of the process.
    ///
    /// Source: `get_dummy_wgrad` in Transformer Engine 2.11 (`pytorch/module/base.py`).
    pub fn dummy_gradient(&mut self, shape: Shape, dtype: DType) -> Tensor {
        let known = self.dummies.iter().find(|(other, _)| *other == shape);
        let storage = if let Some((_, storage)) = known {
            *storage
        } else {
            let storage = self.allocate(shape.elements() * dtype.bytes(), Prim::Linear);
            self.categorise(storage, Category::Gradients);
            self.dummies.push((shape, storage));
            storage
        };
        self.handle(storage, shape, dtype)
    }

    /// Moves a parameter into another storage, of which it becomes a view.
    pub fn move_parameter(&mut self, id: ParamId, storage: StorageId) {
        self.record.retain(storage);
        let old = core::mem::replace(&mut self.params[id.index()].storage, storage);
        self.record.release(old);
    }

    /// The tensor without its history, as a leaf that keeps the gradient which reaches it.
    ///
    /// Source: `detach_variable` in `torch/utils/checkpoint.py`; `retain_grad` has the same effect.
    #[expect(clippy::needless_pass_by_value, reason = "the handle moves into the result")]
    pub fn detached(&mut self, tensor: Tensor) -> Tensor {
        let node = self.begin_node(Prim::Accumulate, Backward::Leaf, &[]);
        let source = self.finish_node(node);
        Tensor { source, ..tensor }
    }

    /// Takes the gradient that reached a leaf.
    pub fn take_gradient(&mut self, leaf: &Tensor) -> Option<Tensor> {
        let Source::Node { id, .. } = leaf.source else { return None };
        self.nodes[id].done = true;
        self.nodes[id].grads[0].take()
    }

    /// Nodes recorded so far.
    pub fn n_nodes(&self) -> usize {
        self.nodes.next()
    }

    /// Forgets the oldest graphs, as far as they have run.
    pub fn forget_graphs(&mut self) {
        self.nodes.forget_done();
    }

    /// Forgets a graph that has run, which was recorded from this node on.
    pub fn forget_graph(&mut self, first: usize) {
        self.nodes.forget_from(first);
    }

    /// Counts again how many gradients each parameter gets from the nodes recorded since: graphs that
    /// wait beside each other share parameters.
    pub fn expect_gradients(&mut self, nodes: core::ops::Range<usize>) {
        let edges = || self.nodes.range(nodes.clone()).flat_map(|node| node.edges);
        for edge in edges() {
            if let Edge::Param { id, .. } = edge {
                self.params[id.index()].pending = 0;
            }
        }
        for edge in edges() {
            if let Edge::Param { id, .. } = edge {
                self.params[id.index()].pending += 1;
            }
        }
    }

    /// Begins a stretch without recording in which some functions record all the same: what they keep
    /// lives to its end.
    pub fn begin_chain(&mut self) {
        self.chained = Some(Vec::new());
    }

    /// Ends it: the last function's node goes first, and those before it follow.
    pub fn end_chain(&mut self) {
        for storage in self.chained.take().into_iter().flatten().rev() {
            self.record.release(storage);
        }
    }

    /// Keeps a tensor to the end of the stretch, if there is one.
    pub fn chain(&mut self, tensor: &Tensor) {
        if let Some(chained) = &mut self.chained {
            self.record.retain(tensor.storage);
            chained.push(tensor.storage);
        }
    }

    /// Places for so many attributes of a module; returns the first.
    pub fn new_attributes(&mut self, count: usize) -> usize {
        let first = self.attributes.len();
        self.attributes.resize(first + count, StorageId::NONE);
        first
    }

    /// `self.name = tensor`: what was there goes.
    pub fn set_attribute(&mut self, index: usize, tensor: &Tensor) {
        self.record.retain(tensor.storage);
        let old = core::mem::replace(&mut self.attributes[index], tensor.storage);
        self.record.release(old);
    }
}
