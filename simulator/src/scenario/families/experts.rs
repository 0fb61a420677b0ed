//! A mixture of experts: its shape, how it is read, and its counts.

use core::ops::RangeInclusive;

use serde_json::Value;

use super::{either, must_divide};
use crate::order;
use crate::scenario::Table;
use crate::scenario::document::type_fault;
use crate::scenario::limits;
use crate::wire::{Fault, Faults, ModelKind, Rule};

/// Routed experts; the grouped product takes fewer than 1,024 (`GroupMM.cu`).
const EXPERTS: RangeInclusive<u64> = 2..=1_023;

/// The mixtures in a model's layers.
///
/// transformers 5.17 runs experts as one grouped product over sorted rows, so no tensor's size depends
/// on how tokens are spread over them. The clock takes the load as balanced: every expert gets the
/// same number of rows, tokens × experts per token ÷ experts, rounded up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experts {
    /// Routed experts of a layer.
    pub count: u64,
    /// Experts that a token goes to.
    pub top_k: u64,
    /// Width of one expert's MLP.
    pub intermediate: u64,
    /// Width of the MLP that every token passes beside its experts.
    pub shared: Option<u64>,
    /// Whether the result of that MLP is weighted by a gate of its own (Qwen2-MoE).
    pub shared_gate: bool,
    /// Layers before this one have a plain MLP.
    pub first_layer: u64,
    /// How experts are chosen.
    pub router: Router,
}

/// How a router chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Router {
    /// `MixtralTopKRouter`: weights stay in fp32 and add up to one.
    Mixtral,
    /// `Qwen3MoeTopKRouter`, `Qwen2MoeTopKRouter`: weights in the logits' dtype.
    Qwen {
        /// `norm_topk_prob`: whether they add up to one.
        normalized: bool,
    },
    /// `DeepseekV3TopkRouter`: sigmoid scores in fp32, the best groups first, then the best experts
    /// within them.
    Grouped {
        /// `n_group`: groups of experts.
        groups: u64,
        /// `topk_group`: groups that a token may use.
        top_groups: u64,
        /// `norm_topk_prob`: whether weights add up to one.
        normalized: bool,
    },
}

impl Experts {
    /// Parameters of one layer's mixture: router, experts, shared experts.
    pub(super) fn parameters(&self, hidden: u128) -> u128 {
        let [count, width] = [self.count, self.intermediate].map(u128::from);
        let shared = u128::from(self.shared.unwrap_or(0));
        let gate = if self.shared_gate { hidden } else { 0 };
        count * hidden + 3 * hidden * (count * width + shared) + gate
    }

    /// Parameters of one layer's experts that a token does not go to.
    pub(super) const fn idle_parameters(&self, hidden: u64) -> u64 {
        3 * hidden * self.intermediate * (self.count - self.top_k)
    }

    /// The widest tensor, elements per token.
    pub(super) fn widest(&self) -> u64 {
        2 * self.top_k * self.intermediate
    }
}

/// `DeepseekV3Config`.
fn read_grouped(table: &mut Table<'_>, faults: &mut Faults) -> Option<Experts> {
    let count = counts(table, ["n_routed_experts", "num_local_experts"], 256, faults);
    let top_k = table.integer_or("num_experts_per_tok", EXPERTS_PER_TOKEN, 8, faults);
    let width = table.integer_or("moe_intermediate_size", limits::WIDTH, 2_048, faults);
    let shared = table.integer_or("n_shared_experts", EXPERTS_PER_TOKEN, 1, faults);
    let groups = table.integer_or("n_group", EXPERTS_PER_TOKEN, 8, faults);
    let top_groups = table.integer_or("topk_group", EXPERTS_PER_TOKEN, 4, faults);
    let normalized = table.flag_or("norm_topk_prob", true, faults);
    let layers = 0..=*limits::LAYERS.end();
    let first_layer = table.integer_or("first_k_dense_replace", layers, 3, faults);
    let (count, top_k, groups, top_groups) = (count?, top_k?, groups?, top_groups?);
    must_divide(table, ("n_group", groups), ("n_routed_experts", count), faults);
    at_most(table, ("topk_group", top_groups), groups, faults);
    at_most(table, ("num_experts_per_tok", top_k), count, faults);
    // The score of a group is the sum of its two best.
    at_most(table, ("n_group", groups), count / 2, faults);
    let width = width?;
    Some(Experts {
        count,
        top_k,
        intermediate: width,
        shared: Some(width * shared?),
        shared_gate: false,
        first_layer: first_layer?,
        router: Router::Grouped { groups, top_groups, normalized: normalized? },
    })
}

/// Source: transformers 5.17, `models/{mixtral,qwen2_moe,qwen3_moe,deepseek_v3}/configuration_*.py`.
pub(super) fn read(
    kind: ModelKind,
    intermediate: u64,
    table: &mut Table<'_>,
    faults: &mut Faults,
) -> Option<Experts> {
    if kind == ModelKind::DeepseekV3 {
        return read_grouped(table, faults);
    }
    let (count, top_k, width) = match kind {
        ModelKind::Mixtral => (8, 2, 0),
        ModelKind::Qwen2Moe => (60, 4, 1_408),
        _ => (128, 8, 768),
    };
    let count = counts(table, ["num_local_experts", "num_experts"], count, faults);
    let top_k = table.integer_or("num_experts_per_tok", EXPERTS_PER_TOKEN, top_k, faults);
    check_auxiliary_loss(table, faults);
    let experts = if kind == ModelKind::Mixtral {
        check_jitter(table, faults);
        Experts {
            count: count?,
            top_k: top_k?,
            intermediate,
            shared: None,
            shared_gate: false,
            first_layer: 0,
            router: Router::Mixtral,
        }
    } else {
        let width = table.integer_or("moe_intermediate_size", limits::WIDTH, width, faults);
        let normalized = table.flag_or("norm_topk_prob", false, faults);
        let shared = (kind == ModelKind::Qwen2Moe).then(|| {
            let key = "shared_expert_intermediate_size";
            table.integer_or(key, limits::WIDTH, 5_632, faults)
        });
        Experts {
            count: count?,
            top_k: top_k?,
            intermediate: width?,
            shared_gate: shared.is_some(),
            shared: match shared {
                Some(width) => Some(width?),
                None => None,
            },
            first_layer: plain_layers(table, faults)?,
            router: Router::Qwen { normalized: normalized? },
        }
    };
    at_most(table, ("num_experts_per_tok", experts.top_k), experts.count, faults);
    Some(experts)
}

const EXPERTS_PER_TOKEN: RangeInclusive<u64> = 1..=1_023;

/// The number of experts under either of its names (`attribute_map`).
pub(super) fn counts(
    table: &mut Table<'_>,
    names: [&'static str; 2],
    default: u64,
    faults: &mut Faults,
) -> Option<u64> {
    either(table, names, EXPERTS, default, faults)
}

/// A token goes to no more experts than there are.
pub(super) fn at_most(
    table: &Table<'_>,
    (key, value): (&'static str, u64),
    most: u64,
    faults: &mut Faults,
) {
    if most < value {
        let message = format!("`{key}` ({value}) is more than there are to choose from ({most})");
        let path = table.path(key);
        let fault = Fault::new(path.clone(), Rule::Range, message);
        let fault = fault.arguments([value.to_string(), "1".to_owned(), most.to_string()]);
        faults.push(fault.mend(path, most));
    }
}

/// The loss that balances the load is off unless the router's logits are returned.
pub(super) fn check_auxiliary_loss(table: &mut Table<'_>, faults: &mut Faults) {
    let key = "output_router_logits";
    if table.flag_or(key, false, faults) == Some(true) {
        let message = "the load-balancing loss over router logits is not simulated";
        let fault = Fault::new(table.path(key), Rule::Unsupported, message);
        faults.push(fault.arguments([key.to_owned(), message.to_owned()]));
    }
}

fn check_jitter(table: &mut Table<'_>, faults: &mut Faults) {
    let key = "router_jitter_noise";
    if table.number_or(key, 0.0..=1.0, 0.0, faults).is_some_and(|noise| 0.0 < noise) {
        let message = "noise on the router's input is not simulated";
        let fault = Fault::new(table.path(key), Rule::Unsupported, message);
        faults.push(fault.arguments([key.to_owned(), message.to_owned()]));
    }
}

/// Layers with a plain MLP: those that `mlp_only_layers` lists, from the first on without a gap.
fn plain_layers(table: &mut Table<'_>, faults: &mut Faults) -> Option<u64> {
    let step = table.integer_or("decoder_sparse_step", 1..=*limits::LAYERS.end(), 1, faults);
    if step? != 1 {
        let key = "decoder_sparse_step";
        let message = "mixtures in every other layer are not simulated";
        let fault = Fault::new(table.path(key), Rule::Unsupported, message);
        faults.push(fault.arguments([key.to_owned(), message.to_owned()]));
        return None;
    }
    let Some(value) = table.value("mlp_only_layers") else { return Some(0) };
    let path = table.path("mlp_only_layers");
    let Value::Array(listed) = value else {
        faults.push(type_fault(&path, "a list of layers", value));
        return None;
    };
    let mut layers: Vec<Option<u64>> = listed.iter().map(Value::as_u64).collect();
    order::sort(&mut layers);
    if layers.iter().zip(0..).any(|(layer, expected)| *layer != Some(expected)) {
        let message = "only plain layers before all mixtures are simulated";
        faults.push(Fault::new(path, Rule::Unsupported, message));
        return None;
    }
    Some(layers.len() as u64)
}
