//! The optimizer over a rank's fp32 partition.
//!
//! # Source
//!
//! deepspeed 0.19.8, `ops/adam/fused_adam.py`; PyTorch 2.11, `torch/optim/adam.py`, `sgd.py`.

use crate::clock::Update;
use crate::primitives::update;
use crate::tape::{Block, Prim, StorageId, Tape};
use crate::tensor::DType;
use crate::wire::scenario::{Implementation, Optimizer, OptimizerName};
use crate::wire::timeline::Category;

/// fp32 weights with what the optimizer keeps for them.
#[derive(Debug)]
pub(super) struct Master {
    /// The weights; none in host memory.
    pub(super) weights: StorageId,
    /// Elements.
    pub(super) elements: u64,
    states: Vec<StorageId>,
}

impl Master {
    /// A partition in host memory.
    pub(super) const fn in_host_memory(elements: u64) -> Self {
        Self { weights: StorageId::NONE, elements, states: Vec::new() }
    }

    /// fp32 weights that a storage holds already, or that are made for them.
    pub(super) fn new(tape: &mut Tape, elements: u64) -> Self {
        let weights = tape.allocate(4 * elements, Prim::State);
        tape.categorise(weights, Category::OptimizerStates);
        Self { weights, elements, states: Vec::new() }
    }

    /// `optimizer.step()`: states at its first call, then the update. `DeepSpeed`'s `FusedAdam` makes
    /// nothing else; PyTorch's optimizers make the square root of the second moments.
    pub(super) fn step(&mut self, tape: &mut Tape, optimizer: &Optimizer) {
        if self.weights == StorageId::NONE {
            return;
        }
        tape.enter(Block::Optimizer, "state");
        let momentum = optimizer.momentum.is_some_and(|momentum| 0.0 < momentum);
        let copies = match optimizer.name {
            OptimizerName::Sgd => usize::from(momentum),
            _ => 2,
        };
        let bytes = 4 * self.elements;
        while self.states.len() < copies {
            let state = tape.allocate(bytes, Prim::State);
            tape.categorise(state, Category::OptimizerStates);
            self.states.push(state);
        }
        tape.enter(Block::Optimizer, "step");
        let work = |kind, passes| update(kind, 1, DType::F32, passes * bytes);
        match (optimizer.name, optimizer.implementation) {
            (OptimizerName::Adamw, Implementation::Fused) => {
                tape.run(Prim::Update, work(Update::Fused, 7));
            }
            (OptimizerName::Adamw, Implementation::Foreach) => {
                let root = tape.allocate(bytes, Prim::Update);
                tape.run(Prim::Update, work(Update::Foreach, 18));
                tape.release_storage(root);
            }
            (OptimizerName::Adamw, Implementation::Loop) => {
                let root = tape.allocate(bytes, Prim::Update);
                let denominator = tape.allocate(bytes, Prim::Update);
                tape.release_storage(root);
                tape.run(Prim::Update, work(Update::Single, 16));
                tape.release_storage(denominator);
            }
            _ => tape.run(Prim::Update, work(Update::Foreach, 5)),
        }
    }

    /// Storages that live from one step to the next.
    pub(super) fn storages(&mut self) -> impl Iterator<Item = &mut StorageId> {
        core::iter::once(&mut self.weights).chain(&mut self.states)
    }
}
