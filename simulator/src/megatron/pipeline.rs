//! The schedules: which forward and backward runs when, and what waits in between.
//!
//! Source: megatron-core 0.19.2, `pipeline_parallel/schedules.py`. Names are held as its functions
//! hold them, so that what waits is found by replay.

use std::collections::VecDeque;

use crate::schedule::warmup;
use crate::tape::{Block, ParamId, Prim, SlotKind, StorageId, Tape, Tensor};
use crate::wire::timeline::PhaseKind;

use super::data::Data;
use super::run::Waiting;
use super::{Job, token_count};

/// A received input, with the gradient that backward left in its `grad`.
pub(super) type Input = (Tensor, Option<Tensor>);

/// An emptied output. Its graph's leaf still holds the input.
pub(super) type Output = (Tensor, Option<Input>);

/// What a schedule's function holds under its names.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) input: Option<Input>,
    pub(super) output: Option<Output>,
    pub(super) output_gradient: Option<Tensor>,
    pub(super) input_gradient: Option<Tensor>,
}

impl Names {
    /// They go with the function, in the order of its names.
    pub(super) fn end(self, tape: &mut Tape) {
        release_input(tape, self.input);
        release_output(tape, self.output);
        for tensor in [self.output_gradient, self.input_gradient] {
            release(tape, tensor);
        }
    }
}

/// A tensor lets go of its gradient before its own bytes.
pub(super) fn release_input(tape: &mut Tape, input: Option<Input>) {
    let Some((tensor, gradient)) = input else { return };
    release(tape, gradient);
    tape.release(tensor);
}

/// A tensor lets go of its graph before its own bytes.
pub(super) fn release_output(tape: &mut Tape, output: Option<Output>) {
    let Some((tensor, input)) = output else { return };
    release_input(tape, input);
    tape.release(tensor);
}

/// Another reference to an input and its gradient.
pub(super) fn share_input(tape: &mut Tape, (tensor, gradient): &Input) -> Input {
    (tape.share(tensor), gradient.as_ref().map(|gradient| tape.share(gradient)))
}

/// Lets a name's tensor go.
pub(super) fn release(tape: &mut Tape, tensor: Option<Tensor>) {
    if let Some(tensor) = tensor {
        tape.release(tensor);
    }
}

impl Job {
    /// `forward_backward_func(…)` with `finalize_model_grads`.
    pub(super) fn forward_backward(&mut self) {
        self.begin_step();
        let rank = &self.model.rank;
        match (rank.pipeline, rank.chunks) {
            (1, _) => self.without_pipeline(),
            (_, 1) => self.one_forward_one_backward(),
            _ => self.interleaved(),
        }
    }

    fn begin_step(&mut self) {
        self.tape.phase(PhaseKind::Forward, 0);
        self.data = (0..self.model.chunks.len()).map(|_| Data::default()).collect();
    }

    /// A step of 1F1B up to its first forward.
    pub(super) fn begin_one_forward_one_backward(&mut self) {
        self.begin_step();
        token_count(&mut self.tape);
        if 0 < self.warmup() {
            self.forward_ahead(0);
        } else {
            let next = self.first_received(0);
            self.forward_of_pair(0, next, &mut Names::default());
        }
    }

    /// `forward_backward_no_pipelining`.
    fn without_pipeline(&mut self) {
        let tokens = token_count(&mut self.tape);
        for micro_batch in 0..self.model.rank.micro_batches {
            let mut waiting = self.forward_step(0, micro_batch, None);
            self.backward_step(&waiting, None);
            release(&mut self.tape, waiting.output.take());
        }
        self.finalize_gradients();
        self.tape.release_storage(tokens);
    }

    /// `forward_backward_pipelining_without_interleaving`.
    fn one_forward_one_backward(&mut self) {
        let rank = &self.model.rank;
        let (last, total) = (rank.stage + 1 == rank.pipeline, rank.micro_batches);
        let warmup = self.warmup();
        let tokens = token_count(&mut self.tape);
        let mut names = Names::default();
        let mut waiting: VecDeque<Waiting> =
            (0..warmup).map(|micro_batch| self.forward_ahead(micro_batch)).collect();
        let mut next = self.first_received(warmup);
        for micro_batch in warmup..total {
            let forward = self.forward_of_pair(micro_batch, next.take(), &mut names);
            waiting.push_back(forward);
            let oldest = waiting.pop_front().expect("a forward has just been added");
            self.tape.slot(SlotKind::Backward, 0, oldest.micro_batch.into());
            self.backward_of(oldest, &mut names);
            self.tape.slot(SlotKind::Exchange, 0, micro_batch + 1);
            if micro_batch + 1 < total {
                next = self.received();
            }
            release_input(&mut self.tape, names.input.take());
        }
        while let Some(oldest) = waiting.pop_front() {
            self.tape.slot(SlotKind::Backward, 0, oldest.micro_batch.into());
            release_input(&mut self.tape, names.input.take());
            release_output(&mut self.tape, names.output.take());
            if !last {
                self.receive_gradient(&mut names);
            }
            self.backward_of(oldest, &mut names);
        }
        self.tape.slot(SlotKind::Finalize, 0, 0);
        self.finalize_gradients();
        self.tape.release_storage(tokens);
        names.end(&mut self.tape);
    }

    /// Forwards before the first backward.
    fn warmup(&self) -> u64 {
        let rank = &self.model.rank;
        warmup(rank.pipeline, rank.stage, rank.micro_batches)
    }

    /// `recv_forward()`: nothing where the model begins.
    fn received(&mut self) -> Option<Tensor> {
        (self.model.rank.stage != 0).then(|| self.receive("recv_forward"))
    }

    /// What the first forward with a backward gets, if there is one.
    fn first_received(&mut self, warmup: u64) -> Option<Tensor> {
        self.tape.slot(SlotKind::Exchange, 0, warmup);
        if warmup < self.model.rank.micro_batches { self.received() } else { None }
    }

    /// A forward before the first backward.
    fn forward_ahead(&mut self, micro_batch: u64) -> Waiting {
        self.tape.slot(SlotKind::Forward, 0, micro_batch);
        let input = self.received();
        let mut forward = self.forward_step(0, micro_batch, input);
        self.sent(&mut forward);
        forward
    }

    /// A forward that is followed by a backward, whose gradient comes when the output is sent.
    fn forward_of_pair(
        &mut self,
        micro_batch: u64,
        input: Option<Tensor>,
        names: &mut Names,
    ) -> Waiting {
        self.tape.slot(SlotKind::Forward, 0, micro_batch);
        let mut forward = self.forward_step(0, micro_batch, input);
        release_output(&mut self.tape, names.output.take());
        let rank = &self.model.rank;
        if rank.stage + 1 < rank.pipeline {
            self.receive_gradient(names);
        }
        self.sent(&mut forward);
        forward
    }

    /// An output was sent on: it is emptied, but for `DeepSpeed`'s where no tensor-parallel ranks share
    /// what is sent; where they do, it keeps its part.
    fn sent(&mut self, forward: &mut Waiting) {
        let rank = &self.model.rank;
        if !rank.deepspeed {
            return self.deallocate(forward);
        }
        let last = rank.stage + 1 == rank.pipeline;
        if 1 < rank.tensor && !last {
            let part =
                self.tape.allocate(self.sent_bytes() / self.model.rank.tensor, Prim::Collective);
            self.deallocate(forward);
            forward.part = part;
        }
    }

    /// Bytes of what goes from stage to stage.
    fn sent_bytes(&self) -> u64 {
        let rank = &self.model.rank;
        2 * rank.local_tokens() * rank.batch * self.model.config.hidden
    }

    /// `output_tensor_grad = recv_backward()`: the new one comes before the old one goes.
    fn receive_gradient(&mut self, names: &mut Names) {
        let gradient = self.receive("recv_backward");
        release(&mut self.tape, names.output_gradient.replace(gradient));
    }

    /// `input_tensor_grad = backward_step(input_tensor, output_tensor, output_tensor_grad)` of the
    /// oldest forward, whose tensors get the names.
    fn backward_of(&mut self, mut oldest: Waiting, names: &mut Names) {
        // `part_output.full()`.
        let restored = (oldest.part != StorageId::NONE)
            .then(|| self.tape.allocate(self.sent_bytes(), Prim::Collective));
        let gradient = self.backward_step(&oldest, names.output_gradient.as_ref());
        for storage in restored.into_iter().chain([oldest.part]) {
            self.tape.release_storage(storage);
        }
        names.input = oldest.input.map(|input| {
            let kept = gradient.as_ref().map(|gradient| self.tape.share(gradient));
            (input, kept)
        });
        let of_graph = names.input.as_ref().map(|input| share_input(&mut self.tape, input));
        names.output = oldest.output.take().map(|output| (output, of_graph));
        let old = core::mem::replace(&mut names.input_gradient, gradient);
        release(&mut self.tape, old);
    }

    /// `finalize_model_grads`: in place, but for the gradients of what sequence-parallel ranks hold
    /// alike, which are summed in one flat tensor (`_allreduce_non_tensor_model_parallel_grads`).
    pub(super) fn finalize_gradients(&mut self) {
        if self.model.rank.sequence && 1 < self.alike.tensors {
            self.tape.enter(Block::Optimizer, "finalize_model_grads");
            self.tape.scratch(4 * self.alike.elements, Prim::Collective);
        }
    }
}

/// Parameters that sequence-parallel ranks hold alike and carry the attribute `sequence_parallel`: biases
/// of row-parallel products. Norms are PyTorch's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alike {
    tensors: usize,
    elements: u64,
}

impl Alike {
    pub(super) fn of(tape: &Tape) -> Self {
        let ends = ["linear_proj.bias", "linear_fc2.bias"];
        let params = (0..tape.n_params()).map(|index| tape.param(ParamId::new(index)));
        let alike = params.filter(|param| ends.iter().any(|end| param.name.ends_with(end)));
        alike.fold(Self { tensors: 0, elements: 0 }, |sum, param| Self {
            tensors: sum.tensors + 1,
            elements: sum.elements + param.shape.elements(),
        })
    }
}
