//! How several GPUs share one training job. One rank of it is simulated.

use serde::{Deserialize, Serialize};

use super::scenario::{one, yes};

/// The layout over the GPUs of a job: `count = tensor · pipeline · context · replicas`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Parallel {
    /// Ranks that share each matrix product.
    #[serde(default = "one")]
    pub tensor: u64,
    /// Whether those ranks also share the sequence between their products.
    #[serde(default)]
    pub sequence: bool,
    /// Stages that the layers are dealt to.
    #[serde(default = "one")]
    pub pipeline: u64,
    /// Parts of a stage that lie between other stages (interleaved schedule).
    #[serde(default = "one")]
    pub virtual_stages: u64,
    /// Ranks that share the experts of a layer.
    #[serde(default = "one")]
    pub expert: u64,
    /// Ranks that share each sequence.
    #[serde(default = "one")]
    pub context: u64,
    /// The pipeline stage whose rank is simulated, counted from 0.
    #[serde(default)]
    pub stage: u64,
    /// How the replicas share weights, gradients and states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataParallel>,
    /// Options of `data = "ddp"`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ddp: Ddp,
    /// Options of `data = "fsdp2"`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fsdp: Fsdp,
    /// Options of `data = "zero1"`, `"zero2"` and `"zero3"`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub zero: Zero,
}

impl Default for Parallel {
    fn default() -> Self {
        Self {
            tensor: 1,
            sequence: false,
            pipeline: 1,
            virtual_stages: 1,
            expert: 1,
            context: 1,
            stage: 0,
            data: None,
            ddp: Ddp::default(),
            fsdp: Fsdp::default(),
            zero: Zero::default(),
        }
    }
}

impl DataParallel {
    /// `DeepSpeed`'s stage, where it is one.
    pub const fn zero_stage(self) -> Option<u8> {
        match self {
            Self::Zero1 => Some(1),
            Self::Zero2 => Some(2),
            Self::Zero3 => Some(3),
            Self::Ddp | Self::Fsdp2 | Self::DistributedOptimizer => None,
        }
    }
}

/// How data-parallel replicas share weights, gradients and optimizer states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DataParallel {
    /// `DistributedDataParallel`: every rank has everything; gradients are averaged in buckets.
    Ddp,
    /// `fully_shard` on every layer and on the model: each rank keeps its part of every parameter.
    Fsdp2,
    /// Megatron's distributed optimizer: states are shared out.
    DistributedOptimizer,
    /// `DeepSpeed`'s stage 1: states are shared out.
    Zero1,
    /// `DeepSpeed`'s stage 2: gradients too.
    Zero2,
    /// `DeepSpeed`'s stage 3: weights too.
    Zero3,
}

/// Options of `DistributedDataParallel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ddp {
    /// Most bytes of a bucket, MiB (`bucket_cap_mb`).
    #[serde(default = "Ddp::bucket_cap_mb")]
    pub bucket_cap_mb: u64,
    /// Whether gradients are views into the buckets (`gradient_as_bucket_view`).
    #[serde(default)]
    pub bucket_view: bool,
    /// Most bytes of the bucket that is ready first, MiB (`dist._DEFAULT_FIRST_BUCKET_BYTES`).
    #[serde(default = "one")]
    pub first_bucket_mb: u64,
}

impl Ddp {
    const fn bucket_cap_mb() -> u64 {
        25
    }
}

impl Default for Ddp {
    fn default() -> Self {
        Self { bucket_cap_mb: Self::bucket_cap_mb(), bucket_view: false, first_bucket_mb: 1 }
    }
}

/// Options of `fully_shard`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[expect(clippy::struct_excessive_bools, reason = "one for each yes-or-no option")]
pub struct Fsdp {
    /// Whether a layer's whole parameters go after its forward (`reshard_after_forward`).
    #[serde(default = "yes")]
    pub reshard_after_forward: bool,
    /// Whether layers compute in bf16 (`MixedPrecisionPolicy(param_dtype=torch.bfloat16)`).
    #[serde(default)]
    pub mixed_precision: bool,
    /// Element type in which gradients are reduced; absent: the one they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduce_dtype: Option<ReduceDtype>,
    /// Whether the shards stay in host memory (`CPUOffloadPolicy()`).
    #[serde(default)]
    pub cpu_offload: bool,
    /// Whether the model is built without memory and gets its shards alone (`torch.device("meta")`,
    /// then `to_empty`).
    #[serde(default = "yes")]
    pub meta_init: bool,
    /// Whether gradients stay whole until a step's last micro-batch (`no_sync`,
    /// `set_requires_gradient_sync(False)`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub no_sync: bool,
    /// Whether the parameters of a layer are one flat parameter, as in `FullyShardedDataParallel`: its
    /// gradient covers frozen ones too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flat: bool,
}

impl Default for Fsdp {
    fn default() -> Self {
        Self {
            reshard_after_forward: true,
            mixed_precision: false,
            reduce_dtype: None,
            cpu_offload: false,
            meta_init: true,
            no_sync: false,
            flat: false,
        }
    }
}

/// Options of `DeepSpeed`'s `zero_optimization`. Sizes count elements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "one for each yes-or-no option")]
pub struct Zero {
    /// Gradients that are reduced at a time (`reduce_bucket_size`).
    pub reduce_bucket_size: u64,
    /// Weights that are gathered at a time after a step, where the backend cannot gather into one
    /// tensor (`allgather_bucket_size`); NCCL can.
    pub allgather_bucket_size: u64,
    /// Whether gradients are reduced beside backward; absent: in stage 3 alone (`overlap_comm`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_comm: Option<bool>,
    /// Whether gradients are copied into a buffer as they come (`contiguous_gradients`).
    pub contiguous_gradients: bool,
    /// Whether tensors are dealt out in turn (`round_robin_gradients`), stages 1 and 2.
    pub round_robin_gradients: bool,
    /// Weights that are gathered ahead at a time (`stage3_prefetch_bucket_size`).
    pub prefetch_bucket_size: u64,
    /// Tensors up to this size stay gathered (`stage3_param_persistence_threshold`).
    pub param_persistence_threshold: u64,
    /// Most weights that are gathered before none is fetched ahead (`stage3_max_live_parameters`).
    pub max_live_parameters: u64,
    /// A weight needed again within so many others stays (`stage3_max_reuse_distance`).
    pub max_reuse_distance: u64,
    /// Weights that are updated at a time in stage 3 (`sub_group_size`).
    pub sub_group_size: u64,
    /// Whether fp32 weights and states stay in host memory (`offload_optimizer.device = "cpu"`).
    pub offload_optimizer: bool,
    /// Whether a rank's weights do, in stage 3 (`offload_param.device = "cpu"`).
    pub offload_param: bool,
    /// Element type in which gradients are added up; absent: the weights'
    /// (`data_types.grad_accum_dtype`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grad_accum_dtype: Option<ReduceDtype>,
}

impl Default for Zero {
    fn default() -> Self {
        Self {
            reduce_bucket_size: 500_000_000,
            allgather_bucket_size: 500_000_000,
            overlap_comm: None,
            contiguous_gradients: true,
            round_robin_gradients: false,
            prefetch_bucket_size: 50_000_000,
            param_persistence_threshold: 100_000,
            max_live_parameters: 1_000_000_000,
            max_reuse_distance: 1_000_000_000,
            sub_group_size: 1_000_000_000,
            offload_optimizer: false,
            offload_param: false,
            grad_accum_dtype: None,
        }
    }
}

/// Element types of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReduceDtype {
    /// `torch.float32`.
    Fp32,
    /// `torch.bfloat16`.
    Bf16,
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
