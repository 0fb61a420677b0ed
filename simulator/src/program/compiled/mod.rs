//! A model under `torch.compile`: inductor's kernels instead of PyTorch's, an approximation.
//!
//! The model is traced once as it runs eagerly. What backward needs goes through the partitioner's minimum cut
//! ([`cut`]); between the kernels of libraries (products, attention) everything is fused, so that a value is memory
//! only where such a kernel makes or reads it, where backward keeps it, or where it is used again behind one
//! ([`forward`], [`backward`]). A buffer dies with the last kernel that reads it.
//!
//! Not followed: which of those kernels inductor splits or merges, the order in which it moves them to lower the
//! peak, and its reuse of dead buffers. Numbers are within a few per cent of captures rather than equal to them.

mod backward;
mod cut;
mod forward;
mod graph;
mod plan;

use crate::scenario::ValidScenario;
use crate::tape::{Block, Library, Prim, StorageId, Tape};
use crate::tensor::{DType, Shape};
use crate::wire::timeline::{Category, PhaseKind};

use super::Process;
use backward::LossGraph;
use graph::Graph;
pub(super) use plan::Plan;
use plan::Step;

/// Compiles the scenario's model.
pub(super) fn compile(scenario: &ValidScenario) -> Plan {
    let (mut process, _) = Process::construct(scenario);
    process.tape.trace();
    let n_before = process.tape.recorded().n_before;
    let traced = process.forward(0);
    let autocast = super::autocast_dtype(scenario.document().precision);
    let graph = Graph::of(&process.tape, n_before, autocast);
    let partition = cut::partition(&graph);
    let mut plan = Plan::default();
    let written = forward::forward(&graph, &partition, &process.tape, &mut plan);
    let loss = loss_graph(scenario);
    let stays = backward::backward(&graph, &written, &process.tape, &mut plan, loss);
    plan.settle(&stays);
    process.tape.release(traced);
    plan
}

/// `loss_function` warns of a class whose loss it does not know by name, and a warning breaks the graph
/// (`PreTrainedModel.loss_function`): of the classes here, GPT-2's.
fn loss_graph(scenario: &ValidScenario) -> LossGraph {
    match scenario.family().class() {
        "GPT2LMHeadModel" => LossGraph::Own,
        _ => LossGraph::Same,
    }
}

impl Process<'_> {
    /// Forward and backward of one micro-batch.
    pub(super) fn compiled_micro_batch(&mut self, plan: &Plan, micro_batch: u32) {
        let tape = &mut self.tape;
        let mut storages = vec![StorageId::NONE; plan.buffers.len()];
        tape.phase(PhaseKind::Forward, micro_batch);
        play(tape, plan, &plan.forward, &mut storages);
        tape.enter(Block::Loss, "loss");
        let loss = tape.empty(Shape::scalar(), DType::F32, Prim::NllLoss);
        tape.phase(PhaseKind::Backward, micro_batch);
        let scaled = match &mut self.scaler {
            Some(scaler) => scaler.scale(tape, &loss),
            None => tape.share(&loss),
        };
        play(tape, plan, &plan.backward, &mut storages);
        for &(id, buffer) in &plan.gradients {
            let storage = core::mem::replace(&mut storages[buffer], StorageId::NONE);
            if tape.param(id).grad.is_some() {
                tape.release_storage(storage);
            } else {
                *tape.param_mut(id).grad_slot() = Some(storage);
                tape.own(storage, id, Category::Gradients);
            }
        }
        for storage in storages {
            tape.release_storage(storage);
        }
        tape.enter_layer(None);
        tape.release(scaled);
        tape.release(loss);
    }
}

fn play(tape: &mut Tape, plan: &Plan, steps: &[Step], storages: &mut [StorageId]) {
    for step in steps {
        tape.set_scope(step.scope);
        if let Some(kernel) = step.attention {
            let gradients = tape.fused_gradients(&kernel.attention, kernel.dtype, false);
            let gradients = gradients.into_iter().flatten();
            for (&buffer, gradient) in step.makes.iter().zip(gradients) {
                storages[buffer] = gradient.storage;
            }
        }
        for &buffer in &step.makes {
            if storages[buffer] == StorageId::NONE {
                let storage = tape.allocate(plan.buffers[buffer].bytes, step.prim);
                tape.categorise(storage, plan.buffers[buffer].category);
                storages[buffer] = storage;
            }
        }
        if let Some(biased) = step.product {
            tape.workspace(Library::Blas);
            if biased {
                tape.workspace(Library::BlasLt);
            }
        }
        if step.attention.is_none() {
            tape.run(step.prim, step.work);
        }
        for &buffer in &step.drops {
            tape.release_storage(core::mem::replace(&mut storages[buffer], StorageId::NONE));
        }
    }
}
