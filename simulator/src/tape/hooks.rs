//! Hooks of modules and tensors: what a parallelism does around the model's own operations.

use super::node::{NodeId, ParamId};
use super::record::StorageId;
use super::{Saving, Tape};
use crate::tensor::{DType, Shape};
use crate::wire::scenario::Optimizer;

/// What is called around a model's modules and autograd's nodes.
///
/// Layers are told by their numbers, nodes by their ids; neither blocks nor primitives know of it.
pub trait Hooks: core::fmt::Debug {
    /// Before the model's forward.
    fn before_model(&mut self, _tape: &mut Tape) {}

    /// After the model's forward, while its outputs are held.
    fn after_model(&mut self, _tape: &mut Tape) {}

    /// Before a layer's forward; not before a checkpoint's second run.
    fn before_layer(&mut self, _tape: &mut Tape, _layer: u32) {}

    /// After a layer's forward; not after a checkpoint's second run.
    fn after_layer(&mut self, _tape: &mut Tape, _layer: u32) {}

    /// When all gradients of a node's output are there.
    fn before_node(&mut self, _tape: &mut Tape, _node: NodeId) {}

    /// When a parameter's gradient has been accumulated.
    fn after_gradient(&mut self, _tape: &mut Tape, _param: ParamId) {}

    /// When the last node has run (`queue_callback`).
    fn after_backward(&mut self, _tape: &mut Tape) {}

    /// When the call of backward has returned.
    fn backward_returned(&mut self, _tape: &mut Tape) {}

    /// When a module is entered, under the same condition; says whether it is one that is left.
    fn entered(&mut self, _tape: &mut Tape) -> bool {
        false
    }

    /// Before a primitive takes a parameter, where [`Tape::watch_weights`] asks for it.
    fn before_weight(&mut self, _tape: &mut Tape, _param: ParamId) {}

    /// When the module whose parameters were taken last has been left.
    fn after_weight(&mut self, _tape: &mut Tape) {}

    /// In place of clipping, the optimizer and `zero_grad`; says whether it was done.
    fn update(&mut self, _tape: &mut Tape, _optimizer: &Optimizer) -> bool {
        false
    }

    /// When a step has ended.
    fn after_step(&mut self, _tape: &mut Tape) {}

    /// Storages that it holds from one step to the next, to be numbered anew.
    fn storages(&mut self) -> Vec<&mut StorageId> {
        Vec::new()
    }
}

/// A rank's part of a parameter (dimension 0 in equal parts, the last ones padded).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its bytes on the device; none when it stays in host memory.
    pub storage: StorageId,
    /// Its elements, the padding included.
    pub elements: u64,
    /// Its element type.
    pub dtype: DType,
}

impl Shard {
    /// Elements of a part of a parameter of this shape.
    pub fn elements(shape: Shape, ranks: u64) -> u64 {
        let rows = shape.sizes()[0];
        shape.elements() / rows * rows.div_ceil(ranks)
    }
}

/// How ranks share the product with a linear layer's weight (tensor parallelism).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Each rank has columns of the output: rows of the weight.
    Columns {
        /// How many ranks.
        ranks: u64,
        /// Whether every rank gets the whole output.
        gathered: bool,
    },
    /// Each rank has rows of the input: columns of the weight. The outputs are summed.
    Rows {
        /// How many ranks.
        ranks: u64,
    },
    /// Each rank has all of it: the bias of a layer whose outputs are summed.
    Whole,
}

/// What hooks are called for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watched {
    /// Layers that are entered and left in a forward.
    layers: bool,
    /// Modules that take parameters.
    weights: bool,
    /// Whether a parameter was taken since the last module was entered.
    taken: bool,
}

/// How new parameters are dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharding {
    /// Over how many ranks.
    pub ranks: u64,
    /// Element type of the parts.
    pub dtype: DType,
    /// Whether the parts stay in host memory.
    pub offload: bool,
}

impl Tape {
    /// Installs hooks for the rest of the process.
    pub fn install(&mut self, hooks: Box<dyn Hooks>) {
        self.hooks = Some(hooks);
    }

    /// Calls a hook, if there are any.
    pub fn hook(&mut self, call: impl FnOnce(&mut dyn Hooks, &mut Self)) {
        if let Some(mut hooks) = self.hooks.take() {
            call(hooks.as_mut(), self);
            self.hooks = Some(hooks);
        }
    }

    /// Says whether layers entered and left from now on are those of the model's forward.
    pub const fn watch_layers(&mut self, watched: bool) {
        self.watched.layers = watched;
    }

    /// Calls the hooks of weights for the rest of the process.
    pub const fn watch_weights(&mut self) {
        self.watched.weights = true;
    }

    /// Whether modules gather their weights before they run (`DeepSpeed`'s stage 3).
    pub const fn gathers_weights(&self) -> bool {
        self.watched.weights
    }

    /// The hook when a module is entered, in any forward.
    pub(super) fn hook_entered(&mut self) {
        if self.watched.weights && !matches!(self.saving, Saving::Off | Saving::Stopped) {
            let mut taken = false;
            self.hook(|hooks, tape| taken = hooks.entered(tape));
            self.watched.taken |= taken;
        }
    }

    /// The hook before a parameter is taken, in any forward.
    pub(super) fn hook_weight(&mut self, param: ParamId) {
        if self.watched.weights && !matches!(self.saving, Saving::Off | Saving::Stopped) {
            self.watched.taken = true;
            self.hook(|hooks, tape| hooks.before_weight(tape, param));
        }
    }

    /// The hook after the module whose parameters were taken last.
    pub(super) fn hook_weight_left(&mut self) {
        if core::mem::take(&mut self.watched.taken) {
            self.hook(|hooks, tape| hooks.after_weight(tape));
        }
    }

    /// The hooks of a layer that is entered or left, in a forward that is not a recomputation.
    pub(super) fn hook_layer(&mut self, layer: u32, entered: bool) {
        if !self.watched.layers || !matches!(self.saving, Saving::Direct | Saving::Deferred(_)) {
            return;
        }
        if entered {
            self.hook(|hooks, tape| hooks.before_layer(tape, layer));
        } else {
            self.hook(|hooks, tape| hooks.after_layer(tape, layer));
        }
    }

    /// The node recorded last: after a layer, the one that made its output.
    pub fn last_node(&self) -> Option<NodeId> {
        self.nodes.next().checked_sub(1).map(NodeId::new)
    }

    /// The stream that the next allocations are for; 0 is the default one.
    pub const fn set_stream(&mut self, stream: u8) {
        self.record.stream = stream;
    }
}
