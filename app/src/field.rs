//! The form's fields: their paths in the scenario, and where they stand.
//!
//! A fault names a path; the field that owns the path shows it.

/// A group of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldsetName {
    Model,
    Hardware,
    Workload,
    Precision,
    Adapter,
    Optimizer,
    Savings,
    Stack,
}

/// A field of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldName {
    Model,
    Gpu,
    Count,
    Framework,
    DataParallel,
    TensorParallel,
    SequenceParallel,
    PipelineParallel,
    VirtualStages,
    ContextParallel,
    ExpertParallel,
    ReshardAfterForward,
    MixedPrecision,
    ReduceDtype,
    CpuOffload,
    BucketView,
    BucketCap,
    MetaInit,
    AlreadyUsed,
    ProcessCap,
    MicroBatch,
    SeqLen,
    TargetLen,
    GradAccum,
    Precision,
    Tf32,
    Adapter,
    AdapterRank,
    AdapterTargets,
    AdapterDropout,
    Optimizer,
    Implementation,
    Momentum,
    Centered,
    ClipGradNorm,
    SetToNone,
    InBackward,
    Checkpointing,
    Attention,
    Loss,
    ChannelsLast,
    Compile,
    ActivationOffload,
    ExpandableSegments,
    AllocConf,
}

impl FieldName {
    /// All fields, in the form's order.
    pub(crate) const ALL: [Self; 45] = [
        Self::Model,
        Self::Gpu,
        Self::Count,
        Self::Framework,
        Self::DataParallel,
        Self::TensorParallel,
        Self::SequenceParallel,
        Self::PipelineParallel,
        Self::VirtualStages,
        Self::ContextParallel,
        Self::ExpertParallel,
        Self::ReshardAfterForward,
        Self::MixedPrecision,
        Self::ReduceDtype,
        Self::CpuOffload,
        Self::BucketView,
        Self::BucketCap,
        Self::MetaInit,
        Self::AlreadyUsed,
        Self::ProcessCap,
        Self::MicroBatch,
        Self::SeqLen,
        Self::TargetLen,
        Self::GradAccum,
        Self::Precision,
        Self::Tf32,
        Self::Adapter,
        Self::AdapterRank,
        Self::AdapterTargets,
        Self::AdapterDropout,
        Self::Optimizer,
        Self::Implementation,
        Self::Momentum,
        Self::Centered,
        Self::ClipGradNorm,
        Self::SetToNone,
        Self::InBackward,
        Self::Checkpointing,
        Self::Attention,
        Self::Loss,
        Self::ChannelsLast,
        Self::Compile,
        Self::ActivationOffload,
        Self::ExpandableSegments,
        Self::AllocConf,
    ];

    /// Its path in the scenario.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Model => "model.id",
            Self::Gpu => "hardware.gpu",
            Self::Count => "hardware.count",
            Self::DataParallel => "parallel.data",
            Self::TensorParallel => "parallel.tensor",
            Self::Framework => "stack.framework",
            Self::PipelineParallel => "parallel.pipeline",
            Self::VirtualStages => "parallel.virtual_stages",
            Self::SequenceParallel => "parallel.sequence",
            Self::ContextParallel => "parallel.context",
            Self::ExpertParallel => "parallel.expert",
            Self::ReshardAfterForward => "parallel.fsdp.reshard_after_forward",
            Self::MixedPrecision => "parallel.fsdp.mixed_precision",
            Self::ReduceDtype => "parallel.fsdp.reduce_dtype",
            Self::CpuOffload => "parallel.fsdp.cpu_offload",
            Self::BucketView => "parallel.ddp.bucket_view",
            Self::BucketCap => "parallel.ddp.bucket_cap_mb",
            Self::MetaInit => "parallel.fsdp.meta_init",
            Self::AlreadyUsed => "hardware.already_used_bytes",
            Self::ProcessCap => "hardware.process_cap_bytes",
            Self::MicroBatch => "workload.micro_batch",
            Self::SeqLen => "workload.seq_len",
            Self::TargetLen => "workload.target_len",
            Self::GradAccum => "workload.grad_accum",
            Self::Precision => "precision",
            Self::Tf32 => "stack.tf32",
            Self::Adapter => "adapter",
            Self::AdapterRank => "adapter.rank",
            Self::AdapterTargets => "adapter.targets",
            Self::AdapterDropout => "adapter.dropout",
            Self::Optimizer => "optimizer.name",
            Self::Implementation => "optimizer.implementation",
            Self::Momentum => "optimizer.momentum",
            Self::Centered => "optimizer.centered",
            Self::ClipGradNorm => "optimizer.clip_grad_norm",
            Self::SetToNone => "optimizer.set_to_none",
            Self::InBackward => "optimizer.in_backward",
            Self::Checkpointing => "checkpointing",
            Self::Attention => "stack.attention",
            Self::Loss => "stack.loss",
            Self::ChannelsLast => "stack.channels_last",
            Self::Compile => "stack.compile",
            Self::ActivationOffload => "stack.activation_offload",
            Self::ExpandableSegments => "stack.alloc_conf.expandable_segments",
            Self::AllocConf => "stack.alloc_conf",
        }
    }

    /// The id of its control in the page.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::Model => "f-model",
            Self::Gpu => "f-gpu",
            Self::Count => "f-count",
            Self::DataParallel => "f-data-parallel",
            Self::TensorParallel => "f-tensor-parallel",
            Self::Framework => "f-framework",
            Self::PipelineParallel => "f-pipeline-parallel",
            Self::VirtualStages => "f-virtual-stages",
            Self::SequenceParallel => "f-sequence-parallel",
            Self::ContextParallel => "f-context-parallel",
            Self::ExpertParallel => "f-expert-parallel",
            Self::ReshardAfterForward => "f-reshard",
            Self::MixedPrecision => "f-mixed-precision",
            Self::ReduceDtype => "f-reduce-dtype",
            Self::CpuOffload => "f-cpu-offload",
            Self::BucketView => "f-bucket-view",
            Self::BucketCap => "f-bucket-cap",
            Self::MetaInit => "f-meta-init",
            Self::AlreadyUsed => "f-already-used",
            Self::ProcessCap => "f-process-cap",
            Self::MicroBatch => "f-micro-batch",
            Self::SeqLen => "f-seq-len",
            Self::TargetLen => "f-target-len",
            Self::GradAccum => "f-grad-accum",
            Self::Precision => "f-precision",
            Self::Tf32 => "f-tf32",
            Self::Adapter => "f-adapter",
            Self::AdapterRank => "f-adapter-rank",
            Self::AdapterTargets => "f-adapter-targets",
            Self::AdapterDropout => "f-adapter-dropout",
            Self::Optimizer => "f-optimizer",
            Self::Implementation => "f-implementation",
            Self::Momentum => "f-momentum",
            Self::Centered => "f-centered",
            Self::ClipGradNorm => "f-clip-grad-norm",
            Self::SetToNone => "f-set-to-none",
            Self::InBackward => "f-in-backward",
            Self::Checkpointing => "f-checkpointing",
            Self::Attention => "f-attention",
            Self::Loss => "f-loss",
            Self::ChannelsLast => "f-channels-last",
            Self::Compile => "f-compile",
            Self::ActivationOffload => "f-activation-offload",
            Self::ExpandableSegments => "f-expandable-segments",
            Self::AllocConf => "f-alloc-conf",
        }
    }

    /// More words that the search finds it by.
    pub(crate) const fn keywords(self) -> &'static str {
        match self {
            Self::Model => "config llama qwen gpt2 mistral bert t5 vit resnet",
            Self::Gpu => "card h100 a100 vram",
            Self::Count => "number nodes world size several parallel fsdp ddp",
            Self::DataParallel => "fsdp fsdp2 ddp fully_shard distributed zero shard replicas",
            Self::TensorParallel => "tp parallelize_module degree",
            Self::Framework => "transformers megatron megatron-core nemo 3d",
            Self::PipelineParallel => "pp stages 1f1b",
            Self::VirtualStages => "interleaved vpp vp chunks",
            Self::SequenceParallel => "sp",
            Self::ContextParallel => "cp ring long context",
            Self::ExpertParallel => "ep moe all-to-all",
            Self::ReshardAfterForward => "fully_shard zero-2 zero-3",
            Self::MixedPrecision => "mixedprecisionpolicy param_dtype bf16",
            Self::ReduceDtype => "mixedprecisionpolicy reduce-scatter all-reduce",
            Self::CpuOffload => "cpuoffloadpolicy host ram",
            Self::BucketView => "gradient_as_bucket_view",
            Self::BucketCap => "reducer",
            Self::MetaInit => "to_empty torch.device",
            Self::AlreadyUsed => "other process busy free",
            Self::ProcessCap => "set_per_process_memory_fraction limit budget",
            Self::MicroBatch => "batch size per_device_train_batch_size bs",
            Self::SeqLen => "context length tokens max_length",
            Self::TargetLen => "labels decoder output length tokens max_target_length",
            Self::GradAccum => "gradient_accumulation_steps",
            Self::Precision => "dtype bf16 fp16 fp32 amp autocast mixed half",
            Self::Tf32 => "allow_tf32 set_float32_matmul_precision",
            Self::Adapter => "lora peft qlora low-rank frozen fine-tuning",
            Self::AdapterRank => "lora r",
            Self::AdapterTargets => "lora target_modules q_proj v_proj",
            Self::AdapterDropout => "lora lora_dropout",
            Self::Optimizer => "adam adamw sgd adafactor rmsprop lion muon 8bit",
            Self::Implementation => "foreach fused loop",
            Self::Momentum => "sgd rmsprop",
            Self::Centered => "rmsprop",
            Self::ClipGradNorm => "max_grad_norm clip_grad_norm_",
            Self::SetToNone => "zero_grad",
            Self::InBackward => "register_post_accumulate_grad_hook fused",
            Self::Checkpointing => "gradient_checkpointing recompute activation",
            Self::Attention => "flash sdpa eager attn_implementation",
            Self::ChannelsLast => "memory_format nhwc",
            Self::Compile => "torch.compile inductor",
            Self::ActivationOffload => "save_on_cpu host memory",
            Self::Loss => "cross entropy liger logits fused",
            Self::ExpandableSegments => "fragmentation allocator",
            Self::AllocConf => {
                "PYTORCH_CUDA_ALLOC_CONF max_split_size_mb garbage_collection roundup"
            }
        }
    }

    /// Whether a fault at a path is shown here.
    pub(crate) fn owns(self, path: &str) -> bool {
        match self {
            Self::Model => matches!(path, "model" | "model.id" | "model.kind" | "model.config"),
            Self::AllocConf => path.starts_with(Self::AllocConf.path()),
            Self::DataParallel => matches!(path, "parallel" | "parallel.data"),
            Self::PipelineParallel => matches!(path, "parallel.pipeline" | "parallel.stage"),
            Self::Adapter => matches!(
                path,
                "adapter"
                    | "adapter.kind"
                    | "adapter.autocast"
                    | "adapter.base"
                    | "adapter.base_head"
                    | "adapter.stable_embedding"
            ),
            Self::ExpandableSegments => false,
            _ => path == self.path(),
        }
    }
}

/// The id of the control of a key of an inline model.
pub(crate) fn config_id(key: &str) -> String {
    format!("f-config-{}", key.replace('_', "-"))
}

/// Whether no field of the form shows a fault at this path, those that are folded away left out.
pub(crate) fn is_homeless(path: &str, config_keys: &[&str], folded: &[FieldName]) -> bool {
    let in_config =
        path.strip_prefix("model.config.").is_some_and(|key| config_keys.contains(&key));
    let shows = |field: FieldName| field.owns(path) && !folded.contains(&field);
    !in_config && !FieldName::ALL.into_iter().any(shows)
}

/// The fields whose label or keywords hold every word of a query.
pub(crate) fn find(query: &str, label: impl Fn(FieldName) -> &'static str) -> Vec<FieldName> {
    let query = query.to_lowercase();
    let hits = |field: &FieldName| {
        let text =
            format!("{} {} {}", label(*field), field.path(), field.keywords()).to_lowercase();
        query.split_whitespace().all(|word| text.contains(word))
    };
    if query.trim().is_empty() {
        return Vec::new();
    }
    FieldName::ALL.into_iter().filter(hits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_find_their_field() {
        assert!(FieldName::SeqLen.owns("workload.seq_len"));
        assert!(FieldName::AllocConf.owns("stack.alloc_conf.max_split_size_mb"));
        assert!(FieldName::Adapter.owns("adapter"));
        assert!(!FieldName::Adapter.owns("adapter.rank"));
        for field in FieldName::ALL {
            assert!(!is_homeless(field.path(), &[], &[]), "{field:?}");
        }
        assert!(is_homeless("parallel.zero.bucket_elements", &[], &[]));
        assert!(is_homeless("parallel.tensor", &[], &[FieldName::TensorParallel]));
        assert!(is_homeless("", &[], &[]));
        assert!(is_homeless("model.config.hidden_size", &[], &[]));
        assert!(!is_homeless("model.config.hidden_size", &["hidden_size"], &[]));
    }

    #[test]
    fn ids_are_unique() {
        let mut ids: Vec<&str> = FieldName::ALL.into_iter().map(FieldName::id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), FieldName::ALL.len());
    }

    #[test]
    fn the_search_knows_the_names_of_other_tools() {
        let label = |_: FieldName| "";
        assert_eq!(find("liger", label), [FieldName::Loss]);
        assert_eq!(find("batch size", label), [FieldName::MicroBatch]);
        assert_eq!(find(" ", label), []);
        assert_eq!(find("nothing like it", label), []);
    }
}
