//! `MoELayer`: a router, tokens sent to their experts' ranks, experts one after the other, and back.
//!
//! Source: megatron-core 0.19.2, `transformer/moe/moe_layer.py`, `transformer/moe/router.py`,
//! `transformer/moe/token_dispatcher.py` (`MoEAlltoAllTokenDispatcher`), `transformer/moe/experts.py`
//! (`SequentialMLP`).

use crate::scenario::{ExpertLoad, MegatronGpt, Mixture};
use crate::tape::{Block, ParamId, Prim, Runner, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};

use super::chunk::Context;
use super::layer::{Mlp, glu};
use super::rank::Rank;

/// Attributes that the dispatcher holds from one forward to the next: `probs`, `routing_map`,
/// `reversed_local_input_permutation_mapping`.
const ATTRIBUTES: usize = 3;

/// Its parameters on this rank.
#[derive(Debug)]
pub(super) struct Moe {
    router: ParamId,
    experts: Vec<Mlp>,
    attributes: usize,
}

/// Where tokens go.
struct Routing {
    probs: Tensor,
    map: Tensor,
}

impl Moe {
    pub(super) fn register(
        tape: &mut Tape,
        config: &MegatronGpt,
        rank: &Rank,
        mixture: &Mixture,
        path: &str,
    ) -> Self {
        let shape = Shape::new([mixture.experts, config.hidden]);
        let router = tape.new_parameter(format!("{path}.router.weight"), shape, DType::BF16);
        let experts = (0..mixture.experts / rank.expert)
            .map(|expert| {
                let path = format!("{path}.experts.local_experts.{expert}");
                Mlp::register(tape, config, 1, &path, false)
            })
            .collect();
        let attributes = tape.new_attributes(ATTRIBUTES);
        Self { router, experts, attributes }
    }

    pub(super) fn forward(&self, tape: &mut Tape, context: &Context<'_>, x: &Tensor) -> Tensor {
        let &Context { config, rank, .. } = context;
        let Some(mixture) = &config.mixture else { return tape.share(x) };
        tape.enter(Block::Mlp, "router");
        let routing = self.route(tape, mixture, x);
        tape.enter(Block::Mlp, "token_dispatcher");
        let tokens = x.shape.rows();
        let flat = Shape::new([tokens, config.hidden]);
        let seen = tape.seen(x, flat, Layout::Contiguous, Layout::Contiguous);
        tape.set_attribute(self.attributes, &routing.probs);
        tape.set_attribute(self.attributes + 1, &routing.map);
        self.count_tokens(tape, mixture, rank, tokens);
        let (sent, probs, order) = permute(tape, mixture, &seen, &routing);
        tape.set_attribute(self.attributes + 2, &order);
        let Routing { probs: of_router, map } = routing;
        for tensor in [seen, of_router, map] {
            tape.release(tensor);
        }
        let rows = rows_of_experts(mixture, rank, tokens);
        let total = Shape::new([rows.iter().sum(), config.hidden]);
        let mut received = all_to_all(tape, rank, &sent, total);
        let weights = Shape::new([rows.iter().sum()]);
        let mut received_probs = all_to_all(tape, rank, &probs, weights);
        tape.release(probs);
        if 1 < rows.len() {
            for tensor in [&mut received, &mut received_probs] {
                let sorted = tape.reordered_rows(tensor);
                tape.release(core::mem::replace(tensor, sorted));
            }
        }
        let mut output = self.compute(tape, config, &rows, [&received, &received_probs]);
        tape.enter(Block::Mlp, "token_dispatcher");
        if 1 < rows.len() {
            let unsorted = tape.reordered_rows(&output);
            tape.release(core::mem::replace(&mut output, unsorted));
        }
        let returned = all_to_all(tape, rank, &output, sent.shape);
        tape.release(core::mem::replace(&mut output, returned));
        let sum = tape.added_rows(&output, &order, flat);
        let result = tape.seen(&sum, x.shape, Layout::Contiguous, Layout::Contiguous);
        for tensor in [sum, output, sent, received, received_probs, order] {
            tape.release(tensor);
        }
        result
    }

    /// `TopKRouter.forward` with softmax over the chosen experts.
    fn route(&self, tape: &mut Tape, mixture: &Mixture, x: &Tensor) -> Routing {
        let tokens = x.shape.rows();
        let mut logits = tape.parallel_linear(x, self.router, None, (None, Runner::Torch));
        if mixture.load == ExpertLoad::Balanced {
            // `RandomSTE`: a clone, filled with random numbers.
            let random = tape.made_contiguous(&logits, logits.shape, Layout::Contiguous);
            tape.release(core::mem::replace(&mut logits, random));
        }
        let each = Shape::new([tokens, mixture.experts]);
        let flat = tape.seen(&logits, each, Layout::Contiguous, Layout::Contiguous);
        let [scores, indices] = tape.topk(&flat, mixture.top_k);
        tape.release(flat);
        let wide = tape.cast(&scores, DType::F32);
        let softmax = tape.softmax(&wide, DType::F32);
        tape.release(wide);
        let chosen = tape.cast(&softmax, logits.dtype);
        tape.release(softmax);
        let probs = tape.scattered(&chosen, &indices, each);
        // `zeros_like(logits).int().scatter(1, top_indices, 1).bool()`.
        let zeros = tape.helper(each, logits.dtype, Prim::Index);
        let integers = tape.helper(each, DType::I32, Prim::Copy);
        tape.release(zeros);
        let ones = tape.helper(each, DType::I32, Prim::Index);
        tape.release(integers);
        let map = tape.helper(each, DType::Bool, Prim::Copy);
        for tensor in [ones, scores, chosen, indices, logits] {
            tape.release(tensor);
        }
        Routing { probs, map }
    }

    /// `preprocess`: how many tokens go where; the numbers are copied to the host and go.
    fn count_tokens(&self, tape: &mut Tape, mixture: &Mixture, rank: &Rank, tokens: u64) {
        let numbers = |tape: &mut Tape, n: u64| tape.helper(Shape::new([n]), DType::I64, Prim::Sum);
        let of_expert = numbers(tape, mixture.experts);
        // Booleans are widened for their sum.
        tape.scratch(8 * tokens * mixture.experts, Prim::Sum);
        if rank.expert == 1 {
            tape.release(of_expert);
            return;
        }
        let local = self.experts.len() as u64;
        let sent = numbers(tape, rank.expert);
        let of_all = numbers(tape, rank.expert * mixture.experts);
        let of_mine = numbers(tape, rank.expert * local);
        let received = numbers(tape, rank.expert);
        let [of_ranks, of_local] = [numbers(tape, 1), numbers(tape, local)];
        for tensor in [of_expert, of_all] {
            tape.release(tensor);
        }
        let mut last = vec![sent, received, of_ranks];
        if local == 1 {
            tape.release(of_mine);
        } else {
            last.push(of_mine);
        }
        for tensor in last {
            tape.release(tensor);
        }
        tape.release(of_local);
    }

    /// `SequentialMLP.forward`.
    fn compute(
        &self,
        tape: &mut Tape,
        config: &MegatronGpt,
        rows: &[u64],
        [tokens, probs]: [&Tensor; 2],
    ) -> Tensor {
        if let [expert] = self.experts.as_slice() {
            return run_expert(tape, config, expert, tokens, probs);
        }
        let parts = tape.split_rows(tokens, rows);
        let weights = tape.split_rows(probs, rows);
        let mut outputs = Vec::new();
        for ((expert, part), weight) in self.experts.iter().zip(&parts).zip(&weights) {
            outputs.push(run_expert(tape, config, expert, part, weight));
        }
        let output = tape.cat_rows(&outputs);
        for tensor in parts.into_iter().chain(weights).chain(outputs) {
            tape.release(tensor);
        }
        output
    }
}

/// `permute`: the chosen tokens in order of their experts, their weights, and that order.
fn permute(
    tape: &mut Tape,
    mixture: &Mixture,
    tokens: &Tensor,
    routing: &Routing,
) -> (Tensor, Tensor, Tensor) {
    let n = tokens.shape.rows();
    let by_expert = Shape::new([mixture.experts * n]);
    let transposed = tape.helper(by_expert, DType::Bool, Prim::Copy);
    let sorted = tape.argsort(&transposed);
    let chosen = Shape::new([n * mixture.top_k]);
    let positions = tape.part(&sorted, chosen);
    tape.release(sorted);
    let order = tape.helper(chosen, DType::I64, Prim::Div);
    let probs = tape.made_contiguous(&routing.probs, by_expert, Layout::Transposed);
    let weights = tape.index_rows(&probs, &positions);
    tape.release(probs);
    let selected = tape.selected_rows(tokens, &order);
    tape.release(positions);
    tape.release(transposed);
    (selected, weights, order)
}

/// `MLP.forward` with a scale for each token.
fn run_expert(
    tape: &mut Tape,
    config: &MegatronGpt,
    expert: &Mlp,
    tokens: &Tensor,
    probs: &Tensor,
) -> Tensor {
    tape.enter(Block::Mlp, "experts.linear_fc1");
    let mut intermediate =
        tape.parallel_linear(tokens, expert.first.weight, None, (None, Runner::Torch));
    tape.enter(Block::Mlp, "experts.activation_func");
    let column = Shape::new([probs.shape.elements(), 1]);
    let scale = tape.seen(probs, column, Layout::Contiguous, Layout::Contiguous);
    let activated = if config.fused_activation {
        tape.weighted_swiglu(&intermediate, &scale)
    } else {
        let plain = if config.gated { glu(tape, &intermediate) } else { tape.gelu(&intermediate) };
        tape.release(core::mem::replace(&mut intermediate, plain));
        tape.mul(&intermediate, &scale)
    };
    tape.release(scale);
    tape.release(core::mem::replace(&mut intermediate, activated));
    tape.enter(Block::Mlp, "experts.linear_fc2");
    let output =
        tape.parallel_linear(&intermediate, expert.second.weight, None, (None, Runner::Torch));
    tape.release(intermediate);
    output
}

/// `all_to_all` among the ranks that share the experts; one rank keeps what it has.
fn all_to_all(tape: &mut Tape, rank: &Rank, x: &Tensor, shape: Shape) -> Tensor {
    if rank.expert == 1 { tape.share(x) } else { tape.exchange(x, shape) }
}

/// Tokens that each expert of this rank gets, of all ranks that share the experts.
fn rows_of_experts(mixture: &Mixture, rank: &Rank, tokens: u64) -> Vec<u64> {
    let local = mixture.experts / rank.expert;
    let sent = tokens * rank.expert;
    (0..local)
        .map(|expert| match mixture.load {
            ExpertLoad::Balanced => {
                let total = sent * mixture.top_k;
                total / mixture.experts + u64::from(expert < total % mixture.experts)
            }
            ExpertLoad::First => {
                if expert < mixture.top_k {
                    sent
                } else {
                    0
                }
            }
        })
        .collect()
}
