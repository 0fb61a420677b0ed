//! One forward and one backward of a model chunk, as the schedules call them.
//!
//! Source: `forward_step`, `backward_step`, `custom_backward`, `deallocate_output_tensor` in
//! megatron-core 0.19.2 (`pipeline_parallel/schedules.py`).

use core::ops::Range;

use crate::engine::backward_graph;
use crate::tape::{Block, Prim, Source, StorageId, Tensor};
use crate::tensor::{DType, Layout, Shape};
use crate::wire::timeline::{Category, PhaseKind};

use super::Job;
use super::chunk::Batch;

/// A forward that waits for its backward.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) chunk: usize,
    pub(super) micro_batch: u32,
    /// The received input, a leaf.
    pub(super) input: Option<Tensor>,
    /// The output: sent on, it is emptied to one element.
    pub(super) output: Option<Tensor>,
    /// This rank's part of an output that `DeepSpeed` has sent.
    pub(super) part: StorageId,
    source: Source,
    nodes: Range<usize>,
}

impl Job {
    /// `forward_step`: data, model, loss on the last stage.
    pub(super) fn forward_step(
        &mut self,
        chunk: usize,
        micro_batch: u64,
        input: Option<Tensor>,
    ) -> Waiting {
        let micro_batch = u32::try_from(micro_batch).unwrap_or(u32::MAX);
        self.tape.phase(PhaseKind::Forward, micro_batch);
        let input = self.given(chunk, input);
        let Self { tape, model, data, deepspeed, .. } = self;
        let first = tape.n_nodes() - usize::from(input.is_some());
        let masked = model.config.engine.is_none_or(|engine| engine.mask);
        let item = data[chunk].next(tape, &model.rank, masked);
        // `DeepSpeed` clones what came whole.
        let clone = input
            .as_ref()
            .filter(|_| model.rank.deepspeed && model.rank.tensor == 1)
            .map(|input| tape.made_contiguous(input, input.shape, Layout::Contiguous));
        let batch = Batch {
            ids: &item.ids,
            positions: &item.positions,
            mask: &item.mask,
            received: clone.as_ref().or(input.as_ref()),
        };
        let last = model.rank.is_last(chunk as u64);
        let part = &mut model.chunks[chunk];
        let mut output = part.forward(tape, &model.config, &model.rank, &batch);
        if let Some(clone) = clone {
            tape.release(clone);
        }
        if last {
            tape.phase(PhaseKind::Loss, micro_batch);
            output = if let Some(engine) = deepspeed {
                part.loss_pipe(tape, engine, output, &item.labels)
            } else {
                let fused = model.config.engine.is_some_and(|engine| engine.fused_loss);
                part.loss(tape, &model.rank, (output, &item.labels), fused)
            };
        }
        for tensor in [item.ids, item.labels, item.positions, item.mask] {
            tape.release(tensor);
        }
        if last {
            output = self.average(output);
        } else {
            self.scale_auxiliary_loss();
        }
        let source = output.source;
        let nodes = first..self.tape.n_nodes();
        Waiting {
            chunk,
            micro_batch,
            input,
            output: Some(output),
            part: StorageId::NONE,
            source,
            nodes,
        }
    }

    /// `set_input_tensor`: what was received, as a leaf. Megatron's module holds it, and lets go of the last
    /// one.
    fn given(&mut self, chunk: usize, input: Option<Tensor>) -> Option<Tensor> {
        let Self { tape, model, inputs, .. } = self;
        let input = input.map(|input| {
            tape.set_grad_enabled(true);
            tape.detached(input)
        });
        let module_holds = !model.rank.deepspeed;
        let kept = input.as_ref().filter(|_| module_holds).map(|input| tape.share(input));
        let old = core::mem::replace(
            &mut inputs[chunk],
            [kept.map_or(StorageId::NONE, |kept| kept.storage), StorageId::NONE],
        );
        for storage in old {
            tape.release_storage(storage);
        }
        tape.set_grad_enabled(true);
        input
    }

    /// `loss_func`, then `*= cp_size` and `/= num_microbatches` in place.
    fn average(&mut self, losses: Tensor) -> Tensor {
        let tape = &mut self.tape;
        tape.enter(Block::Loss, "loss_func");
        let mean = tape.mean_of_all(&losses);
        let scaled = tape.scaled_in_place(mean, Prim::Mul);
        let loss = tape.scaled_in_place(scaled, Prim::Div);
        self.scale_auxiliary_loss();
        self.tape.release(losses);
        loss
    }

    /// `MoEAuxLossAutoScaler.set_loss_scale`: one, times and over numbers; the first is kept, later ones
    /// are copied into it.
    fn scale_auxiliary_loss(&mut self) {
        if self.model.config.mixture.is_none() {
            return;
        }
        let tape = &mut self.tape;
        let number = |tape: &mut crate::tape::Tape| {
            tape.helper(Shape::new([1]), DType::F32, Prim::GradScaler)
        };
        let [ones, scaled] = [number(tape), number(tape)];
        let averaged = number(tape);
        tape.release(scaled);
        if self.auxiliary_scale == StorageId::NONE {
            self.auxiliary_scale = averaged.storage;
        } else {
            tape.release(averaged);
        }
        tape.release(ones);
    }

    /// `deallocate_output_tensor`: one element in place of what was sent.
    pub(super) fn deallocate(&mut self, waiting: &mut Waiting) {
        let Some(output) = waiting.output.take() else { return };
        let empty = self.tape.empty(Shape::new([1]), output.dtype, Prim::Collective);
        self.tape.release(output);
        waiting.output = Some(empty);
    }

    /// `backward_step`: from the output's gradient, which is one for a loss, to the input's.
    pub(super) fn backward_step(
        &mut self,
        waiting: &Waiting,
        gradient: Option<&Tensor>,
    ) -> Option<Tensor> {
        let Self { tape, deepspeed, .. } = self;
        tape.phase(PhaseKind::Backward, waiting.micro_batch);
        if let Some(engine) = deepspeed {
            engine.before_backward(tape);
        }
        tape.enter(Block::Loss, "custom_backward");
        let gradient = match gradient {
            Some(gradient) => tape.share(gradient),
            None => tape.helper(Shape::scalar(), DType::F32, Prim::NllLoss),
        };
        // `ones_like` of an emptied loss has one dimension, and is summed to none.
        let emptied = waiting.output.as_ref().is_some_and(|out| out.shape == Shape::new([1]));
        let arriving = if emptied && gradient.shape == Shape::scalar() {
            tape.helper(Shape::scalar(), DType::F32, Prim::Sum)
        } else {
            tape.share(&gradient)
        };
        // The engine's list of root gradients holds it to the end.
        let held = tape.share(&arriving);
        backward_graph(tape, waiting.source, arriving, waiting.nodes.clone(), &self.model);
        tape.release(held);
        tape.release(gradient);
        if let Some(engine) = deepspeed {
            engine.after_backward(tape);
        }
        let input = waiting.input.as_ref();
        let gradient = input.and_then(|input| tape.take_gradient(input));
        tape.forget_graphs();
        let (input, gradient) = (input?, gradient?);
        // The input's `grad` lives as long as the input, which the module may still keep.
        let kept = &mut self.inputs[waiting.chunk];
        if kept[0] == input.storage {
            kept[1] = tape.share(&gradient).storage;
        }
        Some(gradient)
    }

    /// A tensor that a neighbour sends.
    pub(super) fn receive(&mut self, module: &'static str) -> Tensor {
        let rank = &self.model.rank;
        let shape = Shape::new([rank.local_tokens(), rank.batch, self.model.config.hidden]);
        self.tape.enter(Block::Data, module);
        let tensor = self.tape.empty(shape, DType::BF16, Prim::Collective);
        self.tape.categorise(tensor.storage, Category::Activations);
        tensor
    }
}
