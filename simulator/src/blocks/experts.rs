//! A layer's mixture of experts: router, routed experts, shared experts.
//!
//! Source: transformers 5.17, `models/{mixtral,qwen2_moe,qwen3_moe,deepseek_v3}/modeling_*.py` and
//! `grouped_mm_experts_forward` in `integrations/moe.py`, which the classes run by default: tokens are
//! sorted by expert and all experts are one grouped matrix product. So no tensor's size depends on how
//! the router spreads the tokens; only the clock takes the load as balanced.

use crate::scenario::{Activation, Experts, LlamaLike, Router};
use crate::tape::{Block, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::llama::activate;
use super::mlp::Mlp;
use super::parameter;

/// A mixture's parameters.
#[derive(Debug)]
pub(super) struct Mixture {
    config: Experts,
    activation: Activation,
    gate: ParamId,
    gate_up_proj: ParamId,
    down_proj: ParamId,
    shared: Option<Mlp>,
    shared_gate: Option<ParamId>,
}

/// What a router says: its logits, the weights of the chosen experts, and their numbers.
struct Routing {
    logits: Tensor,
    weights: Tensor,
    experts: Tensor,
}

impl Mixture {
    /// Registers its parameters under a path such as `model.layers.3.mlp`.
    pub(super) fn register(
        tape: &mut Tape,
        path: &str,
        model: &LlamaLike,
        config: &Experts,
        dtype: DType,
    ) -> Self {
        let LlamaLike { hidden, activation, .. } = *model;
        let &Experts { count, intermediate, router, .. } = config;
        let register_gate = |tape: &mut Tape| {
            parameter(tape, format!("{path}.gate.weight"), [count, hidden], dtype)
        };
        let first = router == Router::Mixtral || config.shared_gate;
        let before = first.then(|| register_gate(tape));
        let experts = |tape: &mut Tape, module: &str, sizes: [u64; 2]| {
            let [outer, inner] = sizes;
            parameter(tape, format!("{path}.experts.{module}"), [count, outer, inner], dtype)
        };
        let gate_up_proj = experts(tape, "gate_up_proj", [2 * intermediate, hidden]);
        let down_proj = experts(tape, "down_proj", [hidden, intermediate]);
        let gate = before.unwrap_or_else(|| register_gate(tape));
        if let Router::Grouped { .. } = router {
            let name = format!("{path}.gate.e_score_correction_bias");
            tape.new_buffer(&name, count * dtype.bytes());
        }
        let shared = config.shared.map(|width| {
            let name = if config.shared_gate { "shared_expert" } else { "shared_experts" };
            Mlp::register(tape, &format!("{path}.{name}"), [hidden, width], false, dtype)
        });
        let shared_gate = config.shared_gate.then(|| {
            parameter(tape, format!("{path}.shared_expert_gate.weight"), [1, hidden], dtype)
        });
        let config = config.clone();
        Self { config, activation, gate, gate_up_proj, down_proj, shared, shared_gate }
    }

    /// `MixtralSparseMoeBlock`, `Qwen3MoeSparseMoeBlock`, `DeepseekV3MoE`.
    pub(super) fn forward(&self, tape: &mut Tape, x: &Tensor) -> Tensor {
        let flat = Shape::new([x.shape.rows(), x.shape.last()]);
        if let (Some(shared), Some(gate)) = (&self.shared, self.shared_gate) {
            return self.gated(tape, x, (shared, gate));
        }
        tape.enter(Block::Mlp, "gate");
        let (hidden_states, routing) = if let Router::Grouped { .. } = self.config.router {
            let routing = self.route(tape, x);
            (tape.reshape(x, flat), routing)
        } else {
            let hidden_states = tape.reshape(x, flat);
            let routing = self.route(tape, &hidden_states);
            (hidden_states, routing)
        };
        let routed = self.routed(tape, &hidden_states, &routing);
        tape.release(hidden_states);
        let mut output = tape.reshape(&routed, x.shape);
        tape.release(routed);
        if let Some(shared) = &self.shared {
            let other = shared.forward(tape, x, self.activation);
            tape.enter(Block::Mlp, "experts + shared_experts");
            let sum = tape.add(&output, &other);
            tape.release(other);
            tape.release(core::mem::replace(&mut output, sum));
        }
        for tensor in [routing.logits, routing.weights, routing.experts] {
            tape.release(tensor);
        }
        output
    }

    /// `Qwen2MoeSparseMoeBlock`: the shared MLP first, and weighted by a gate of its own.
    fn gated(&self, tape: &mut Tape, x: &Tensor, (shared, gate): (&Mlp, ParamId)) -> Tensor {
        let hidden_states = tape.reshape(x, Shape::new([x.shape.rows(), x.shape.last()]));
        let other = shared.forward(tape, &hidden_states, self.activation);
        tape.enter(Block::Mlp, "gate");
        let routing = self.route(tape, &hidden_states);
        let routed = self.routed(tape, &hidden_states, &routing);
        tape.enter(Block::Mlp, "shared_expert_gate");
        let logit = tape.linear(&hidden_states, gate, None);
        let weight = tape.sigmoid(&logit);
        tape.release(logit);
        let weighted = tape.mul(&weight, &other);
        tape.release(weight);
        tape.release(other);
        let sum = tape.add(&routed, &weighted);
        tape.release(routed);
        let output = tape.reshape(&sum, x.shape);
        for tensor in [sum, hidden_states, weighted] {
            tape.release(tensor);
        }
        for tensor in [routing.logits, routing.weights, routing.experts] {
            tape.release(tensor);
        }
        output
    }

    fn route(&self, tape: &mut Tape, x: &Tensor) -> Routing {
        let x = tape.reshape(x, Shape::new([x.shape.rows(), x.shape.last()]));
        let routing = match self.config.router {
            Router::Mixtral => self.softmax_router(tape, &x, true),
            Router::Qwen { normalized } => self.softmax_router(tape, &x, normalized),
            Router::Grouped { .. } => self.grouped_router(tape, &x),
        };
        tape.release(x);
        routing
    }

    /// `MixtralTopKRouter` and `Qwen3MoeTopKRouter`: the largest of the softmax's probabilities. The
    /// latter returns its weights in the logits' dtype.
    fn softmax_router(&self, tape: &mut Tape, x: &Tensor, normalized: bool) -> Routing {
        let logits = tape.linear(x, self.gate, None);
        // `logits.float()` in Mixtral; `dtype=torch.float` in Qwen, which reads fp16 itself.
        let own = if logits.dtype == DType::F16 && self.config.router != Router::Mixtral {
            tape.share(&logits)
        } else {
            tape.cast(&logits, DType::F32)
        };
        let probabilities = tape.softmax(&own, DType::F32);
        tape.release(own);
        let [mut weights, experts] = tape.topk(&probabilities, self.config.top_k);
        if normalized {
            let sum = tape.sum_each_row(&weights);
            weights = tape.div_in_place(weights, &sum);
            tape.release(sum);
        }
        if self.config.router != Router::Mixtral {
            let cast = tape.cast(&weights, logits.dtype);
            tape.release(core::mem::replace(&mut weights, cast));
        }
        tape.release(probabilities);
        Routing { logits, weights, experts }
    }

    /// `DeepseekV3TopkRouter`: in fp32, the experts of the best groups; their scores are the weights.
    ///
    /// What decides the choice is recorded by autograd and used by nothing that is differentiated: such
    /// nodes die with the names that lead to them, and what they kept with them.
    fn grouped_router(&self, tape: &mut Tape, x: &Tensor) -> Routing {
        let Router::Grouped { normalized, .. } = self.config.router else {
            unreachable!("groups are of a grouped router")
        };
        let wide = tape.cast(x, DType::F32);
        let logits = if tape.param(self.gate).dtype == DType::F32 {
            tape.linear(&wide, self.gate, None)
        } else {
            let own = tape.weight(self.gate);
            let weight = tape.cast(&own, DType::F32);
            let logits = tape.linear_of(&wide, &weight);
            tape.release(weight);
            tape.release(own);
            logits
        };
        tape.release(wide);
        let scores = tape.sigmoid(&logits);
        let (experts, names) = self.choose(tape, &scores);
        let mut weights = tape.gather_last(&scores, &experts);
        let mut denominator = None;
        if normalized {
            let sum = tape.sum_each_row(&weights);
            let shifted = tape.add_scalar(&sum);
            tape.release(sum);
            weights = tape.div_in_place(weights, &shifted);
            denominator = Some(shifted);
        }
        let scaled = tape.mul_scalar(&weights);
        tape.release(core::mem::replace(&mut weights, scaled));
        for tensor in [scores].into_iter().chain(names).chain(denominator) {
            tape.release(tensor);
        }
        Routing { logits, weights, experts }
    }

    /// The best experts of each token within its best groups; with them what lives until the router
    /// returns, in the order in which it dies.
    fn choose(&self, tape: &mut Tape, scores: &Tensor) -> (Tensor, Vec<Tensor>) {
        let Router::Grouped { groups, top_groups, .. } = self.config.router else {
            unreachable!("groups are of a grouped router")
        };
        let tokens = scores.shape.rows();
        let dtype = scores.dtype.promote(tape.param(self.gate).dtype);
        let biased = tape.helper(scores.shape, dtype, Prim::Add);
        let by_group = Shape::new([tokens, groups, self.config.count / groups]);
        let grouped = tape.view(&biased, by_group);
        let [best_two, places] = tape.topk(&grouped, 2);
        tape.release(grouped);
        let places = held_by_node(tape, places);
        let group_scores = tape.helper(Shape::new([tokens, groups]), dtype, Prim::Sum);
        tape.release(best_two);
        let [values, group_idx] = tape.topk(&group_scores, top_groups);
        tape.release(values);
        let group_mask = tape.helper(group_scores.shape, dtype, Prim::Index);
        let score_mask = tape.helper(scores.shape, dtype, Prim::Copy);
        let chosen = tape.helper(scores.shape, DType::Bool, Prim::Copy);
        let others = tape.helper(scores.shape, DType::Bool, Prim::Mask);
        tape.release(chosen);
        let masked = tape.helper(scores.shape, dtype, Prim::MaskedFill);
        let others = held_by_node(tape, others);
        tape.release(biased);
        let [values, experts] = tape.topk(&masked, self.config.top_k);
        tape.release(values);
        let names = [others, Some(masked), places, Some(group_scores), Some(group_idx)];
        let names = names.into_iter().flatten().chain([group_mask, score_mask]);
        (experts, names.collect())
    }

    /// `grouped_mm_experts_forward`: rows sorted by expert, two grouped products, rows put back and
    /// summed over each token's experts.
    fn routed(&self, tape: &mut Tape, hidden_states: &Tensor, routing: &Routing) -> Tensor {
        let pairs = Shape::new([routing.weights.shape.elements()]);
        tape.enter(Block::Mlp, "experts (sort)");
        let sample_weights = tape.reshape(&routing.weights, pairs);
        let expert_ids = tape.reshape(&routing.experts, pairs);
        let [sorted_ids, perm] = tape.sort(&expert_ids);
        let tokens = tape.helper(pairs, DType::I64, Prim::Div);
        let selected = tape.index_rows(hidden_states, &tokens);
        tape.release(tokens);
        let weights = tape.index_rows(&sample_weights, &perm);
        let histc_input = tape.helper(pairs, DType::I32, Prim::Copy);
        let [counts, ends] = tape.count(&histc_input, self.config.count);
        let mask = tape.helper(pairs, DType::Bool, Prim::Mask);
        let rows = Shape::new([pairs.elements(), 1]);
        let mask = Tensor { shape: rows, ..mask };
        let selected = tape.masked_fill_in_place(selected, &mask);

        tape.enter(Block::Mlp, "experts.gate_up_proj");
        let activated = self.gate_up(tape, &selected, [&ends, &mask]);
        tape.enter(Block::Mlp, "experts.down_proj");
        let product = tape.grouped_mm(&activated, self.down_proj, &ends);
        tape.release(activated);
        let proj_out = tape.masked_fill(&product, &mask);
        tape.release(product);
        tape.enter(Block::Mlp, "experts (weights)");
        let column = tape.reshape(&weights, rows);
        let weighted = tape.mul(&proj_out, &column);
        tape.release(column);
        let (final_states, weighted) = restore(tape, weighted, &perm, routing.weights.shape);
        let output = tape.cast(&final_states, hidden_states.dtype);
        let names = [sample_weights, expert_ids, sorted_ids, perm, selected, weights, histc_input];
        let names = names.into_iter().chain([counts, ends, mask, proj_out]);
        for tensor in names.chain(weighted).chain([final_states]) {
            tape.release(tensor);
        }
        output
    }

    /// `act_fn(gate) * up` of the first product's halves.
    fn gate_up(&self, tape: &mut Tape, selected: &Tensor, [ends, mask]: [&Tensor; 2]) -> Tensor {
        let product = tape.grouped_mm(selected, self.gate_up_proj, ends);
        let gate_up = tape.masked_fill(&product, mask);
        tape.release(product);
        let [gate, up] = tape.split(&gate_up, [self.config.intermediate; 2]);
        let activated = activate(tape, &gate, self.activation);
        let product = tape.mul(&activated, &up);
        for tensor in [activated, gate, up, gate_up] {
            tape.release(tensor);
        }
        product
    }
}

/// Puts the rows back into the tokens' order and sums over each token's experts; with the sum, the
/// names that live on: the rows in order and the inverse permutation.
fn restore(
    tape: &mut Tape,
    weighted: Tensor,
    perm: &Tensor,
    chosen: Shape,
) -> (Tensor, [Tensor; 2]) {
    tape.enter(Block::Mlp, "experts (restore)");
    let inverse = tape.helper(perm.shape, DType::I64, Prim::Index);
    let range = tape.helper(perm.shape, DType::I64, Prim::Arange);
    tape.release(range);
    let in_order = tape.index_rows(&weighted, &inverse);
    tape.release(weighted);
    let &[tokens, top_k] = chosen.sizes() else { unreachable!("weights are [tokens, top_k]") };
    let by_token = tape.reshape(&in_order, Shape::new([tokens, top_k, in_order.shape.last()]));
    let sum = tape.sum_second(&by_token);
    tape.release(by_token);
    (sum, [in_order, inverse])
}

/// A tensor without a name that a node keeps, while nodes keep anything.
fn held_by_node(tape: &mut Tape, tensor: Tensor) -> Option<Tensor> {
    if tape.holds_saved() {
        return Some(tensor);
    }
    tape.release(tensor);
    None
}
