//! Which fields mean something for a scenario. The others are folded away.

use simulator::scenario::{Architecture, Data};
use simulator::wire::Scenario;
use simulator::wire::parallel::DataParallel;
use simulator::wire::scenario::{Checkpointing, Framework, OptimizerName, Precision};

use crate::field::FieldName;

/// What a model's family says that decides which fields apply.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub(crate) struct Shape {
    /// Whether it reads images, which have no length.
    pub images: bool,
    /// Whether it is a network of convolutions: without attention, and nothing to checkpoint.
    pub convolutions: bool,
    /// Whether Megatron-core can train it.
    pub megatron: bool,
    /// Whether its layers have experts.
    pub experts: bool,
    /// Whether its labels are sequences of their own length.
    pub decoder: bool,
    /// How many positions it has or was trained for.
    pub positions: Option<u64>,
    /// The modules that an adapter may target, each name once, in the model's order.
    pub projections: Vec<&'static str>,
}

impl Shape {
    pub(crate) fn of(architecture: &Architecture) -> Self {
        let family = architecture.family();
        let mut projections = Vec::new();
        for projection in family.projections() {
            if !projections.contains(&projection.name) {
                projections.push(projection.name);
            }
        }
        Self {
            images: matches!(family.data(), Data::Images(_)),
            convolutions: matches!(architecture, Architecture::Vision(_)),
            megatron: architecture.runs_in_megatron(),
            experts: architecture.has_experts(),
            decoder: family.has_decoder(),
            positions: family.positions().limit(),
            projections,
        }
    }
}

/// Copies of the model that the GPUs hold.
pub(crate) fn replicas(scenario: &Scenario) -> u64 {
    let parallel = &scenario.parallel;
    let ranks = [parallel.tensor, parallel.pipeline, parallel.context];
    scenario.hardware.count / ranks.into_iter().fold(1, u64::saturating_mul).max(1)
}

/// Whether a field means something. One that breaks a rule by standing where it means nothing does,
/// so that the fault has a place and the value a way out.
pub(crate) fn applies(field: FieldName, scenario: &Scenario, shape: &Shape) -> bool {
    let Scenario { hardware, parallel, workload, optimizer, adapter, stack, .. } = scenario;
    let megatron = stack.framework == Framework::MegatronCore;
    let several = 1 < hardware.count;
    match field {
        FieldName::Framework => megatron || shape.megatron,
        FieldName::SequenceParallel => megatron && 1 < parallel.tensor || parallel.sequence,
        FieldName::PipelineParallel => megatron && several || 1 < parallel.pipeline,
        FieldName::VirtualStages => {
            megatron && 1 < parallel.pipeline || 1 < parallel.virtual_stages
        }
        FieldName::ContextParallel => megatron && several || 1 < parallel.context,
        FieldName::ExpertParallel => megatron && several && shape.experts || 1 < parallel.expert,
        // What these choose among is transformers' alone.
        FieldName::Implementation | FieldName::SetToNone => !megatron,
        FieldName::DataParallel => parallel.data.is_some() || 1 < replicas(scenario),
        FieldName::TensorParallel => several || 1 < parallel.tensor,
        FieldName::ReshardAfterForward
        | FieldName::MixedPrecision
        | FieldName::ReduceDtype
        | FieldName::CpuOffload
        | FieldName::MetaInit => parallel.data == Some(DataParallel::Fsdp2),
        FieldName::BucketView | FieldName::BucketCap => {
            !megatron && parallel.data == Some(DataParallel::Ddp)
        }
        FieldName::SeqLen => !shape.images || 0 < workload.seq_len,
        FieldName::TargetLen => shape.decoder || 0 < workload.target_len,
        // Without fp32 weights there are no fp32 products.
        FieldName::Tf32 => scenario.precision != Precision::Bf16,
        FieldName::Adapter => adapter.is_some() || !megatron && !shape.projections.is_empty(),
        FieldName::AdapterRank | FieldName::AdapterTargets | FieldName::AdapterDropout => {
            adapter.is_some()
        }
        FieldName::Momentum => optimizer.name.has_momentum() || optimizer.momentum.is_some(),
        FieldName::Centered => optimizer.name == OptimizerName::Rmsprop || optimizer.centered,
        FieldName::Checkpointing => {
            !shape.convolutions || scenario.checkpointing != Checkpointing::None
        }
        FieldName::Attention => !shape.convolutions && !megatron,
        // Classes have a loss of their own.
        FieldName::Loss => !shape.images && !megatron,
        FieldName::Compile => !shape.convolutions && !megatron || stack.compile,
        FieldName::InBackward => !megatron || optimizer.in_backward,
        FieldName::ActivationOffload => {
            !shape.convolutions && !megatron || stack.activation_offload
        }
        FieldName::ChannelsLast => shape.convolutions || stack.channels_last,
        _ => true,
    }
}
