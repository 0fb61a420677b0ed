//! The interleaved schedule: several model chunks a stage.
//!
//! Source: megatron-core 0.19.2, `forward_backward_pipelining_with_interleaving`
//! (`pipeline_parallel/schedules.py`) with `overlap_p2p_comm`, groups of as many micro-batches as there
//! are stages, and receive buffers of one.

use std::collections::VecDeque;

use crate::schedule::Interleaved;
use crate::tape::{SlotKind, StorageId, Tensor};

use super::pipeline::{Names, release, release_input, release_output};
use super::run::Waiting;
use super::{Job, token_count};

/// What the schedule's function holds in lists and names.
#[derive(Debug, Default)]
struct Held {
    /// Inputs that wait for their forward, by chunk; none where the chunk begins the model.
    received: Vec<VecDeque<Tensor>>,
    /// Forwards that wait for their backward, by chunk.
    waiting: Vec<VecDeque<Waiting>>,
    /// Gradients that wait for their backward, by chunk.
    gradients: Vec<VecDeque<Tensor>>,
    /// `bwd_recv_buffer`.
    buffer: Option<Tensor>,
    /// The chunk whose last forward has the name `output_tensor`, when it was sent on.
    named: Option<usize>,
    /// Whether the last forward has run.
    ended: bool,
    names: Names,
}

impl Job {
    /// The schedule.
    pub(super) fn interleaved(&mut self) {
        let rank = &self.model.rank;
        let orders = Interleaved::new(rank.pipeline, rank.stage, rank.chunks, rank.micro_batches);
        let n = self.model.chunks.len();
        let mut held = Held {
            received: (0..n).map(|_| VecDeque::new()).collect(),
            waiting: (0..n).map(|_| VecDeque::new()).collect(),
            gradients: (0..n).map(|_| VecDeque::new()).collect(),
            ..Held::default()
        };
        let tokens = token_count(&mut self.tape);
        if !rank.is_first(0) {
            let input = self.receive("recv_forward");
            held.received[0].push_back(input);
        }
        for k in 0..orders.warmup {
            self.warm_up(&orders, k, &mut held);
        }
        for k in 0..orders.total - orders.warmup {
            self.steady(&orders, k, &mut held);
        }
        self.deallocate_named(&mut held);
        held.ended = true;
        if orders.warmup == orders.total && !self.model.rank.is_last(self.model.rank.chunks - 1) {
            let gradient = self.receive("recv_backward");
            held.gradients[n - 1].push_back(gradient);
        }
        for k in orders.total - orders.warmup..orders.total {
            self.cool_down(&orders, k, &mut held);
        }
        self.tape.slot(SlotKind::Finalize, 0, 0);
        self.finalize_gradients();
        self.tape.release_storage(tokens);
        release(&mut self.tape, held.buffer);
        held.names.end(&mut self.tape);
    }

    /// One forward before the first backward: sent on and emptied at once.
    fn warm_up(&mut self, orders: &Interleaved, k: u64, held: &mut Held) {
        let next = orders.receives(k, true).filter(|_| k + 1 < orders.total);
        let chunk = self.forward_of(orders, k, held);
        let input = next.map(|next| {
            let input = self.receive("recv_forward");
            held.received[next].push_back(self.tape.share(&input));
            (input, None)
        });
        release_input(&mut self.tape, core::mem::replace(&mut held.names.input, input));
        held.named = (!self.model.rank.is_last(chunk as u64)).then_some(chunk);
        self.deallocate_named(held);
        if k + 1 == orders.warmup && orders.warmup < orders.total && !orders.ends {
            let gradient = self.receive("recv_backward");
            let last = held.gradients.len() - 1;
            held.gradients[last].push_back(self.tape.share(&gradient));
            held.buffer = Some(gradient);
        }
    }

    /// A forward and a backward: the forward's output is emptied before the next one.
    fn steady(&mut self, orders: &Interleaved, k: u64, held: &mut Held) {
        let forward = k + orders.warmup;
        self.deallocate_named(held);
        let chunk = self.forward_of(orders, forward, held);
        let next = orders.receives(forward, true).filter(|_| forward + 1 < orders.total);
        if let Some(next) = next {
            let input = self.receive("recv_forward");
            held.received[next].push_back(input);
        }
        let gradient = self.backward_of_chunk(orders, k, held);
        if let Some(next) = orders.receives(k, false) {
            let gradient = self.receive("recv_backward");
            held.gradients[next].push_back(gradient);
        }
        release(&mut self.tape, held.buffer.take());
        held.named = (!self.model.rank.is_last(chunk as u64)).then_some(chunk);
        let old = core::mem::replace(&mut held.names.input_gradient, gradient);
        release(&mut self.tape, old);
    }

    /// A backward after the last forward.
    fn cool_down(&mut self, orders: &Interleaved, k: u64, held: &mut Held) {
        let next = orders.receives(k, false).filter(|_| k + 1 < orders.total);
        let gradient = self.backward_of_chunk(orders, k, held);
        let old = core::mem::replace(&mut held.names.input_gradient, gradient);
        release(&mut self.tape, old);
        let received = next.map(|next| {
            let gradient = self.receive("recv_backward");
            held.gradients[next].push_back(self.tape.share(&gradient));
            gradient
        });
        let old = core::mem::replace(&mut held.names.output_gradient, received);
        release(&mut self.tape, old);
    }

    /// `forward_step_helper`; returns the chunk.
    fn forward_of(&mut self, orders: &Interleaved, k: u64, held: &mut Held) -> usize {
        let (micro_batch, chunk) = orders.forward(k);
        self.tape.slot(SlotKind::Forward, chunk, micro_batch);
        let input = if self.model.rank.is_first(chunk as u64) {
            None
        } else {
            held.received[chunk].pop_front()
        };
        let forward = self.forward_step(chunk, micro_batch, input);
        held.waiting[chunk].push_back(forward);
        chunk
    }

    /// `deallocate_output_tensor(output_tensor)`: what the name has; an emptied tensor is emptied again.
    fn deallocate_named(&mut self, held: &mut Held) {
        if let Some(chunk) = held.named
            && let Some(forward) = held.waiting[chunk].back_mut()
        {
            self.deallocate(forward);
        }
    }

    /// `backward_step_helper`: the oldest forward of the chunk; its names go with the helper.
    fn backward_of_chunk(
        &mut self,
        orders: &Interleaved,
        k: u64,
        held: &mut Held,
    ) -> Option<Tensor> {
        let chunk = orders.backward(k);
        let mut oldest = held.waiting[chunk].pop_front().expect("a forward waits for its backward");
        self.tape.slot(SlotKind::Backward, chunk, oldest.micro_batch.into());
        let gradient = held.gradients[chunk].pop_front();
        let result = self.backward_step(&oldest, gradient.as_ref());
        let input = oldest.input.take();
        let of = |input: &Option<Tensor>| input.as_ref().map_or(StorageId::NONE, |t| t.storage);
        if let (Some((named, kept)), Some(result)) = (&mut held.names.input, &result)
            && named.storage == of(&input)
        {
            *kept = Some(self.tape.share(result));
        }
        let kept = result.as_ref().map(|result| self.tape.share(result));
        let output = oldest.output.take().map(|output| (output, input.map(|input| (input, kept))));
        // The name `output_tensor` still has the last forward's.
        if held.named == Some(chunk) && held.waiting[chunk].is_empty() && held.ended {
            held.names.output = output;
        } else {
            release_output(&mut self.tape, output);
        }
        release(&mut self.tape, gradient);
        let sends = !self.model.rank.is_first(chunk as u64);
        if sends {
            result
        } else {
            release(&mut self.tape, result);
            None
        }
    }
}
