//! English: what each field is called, and what it means.

use super::FieldWords;
use crate::field::FieldName;

/// Label and help of a field.
pub(super) fn field(name: FieldName) -> FieldWords {
    let (label, help) = match name {
        FieldName::Model => ("Model", "A class of transformers with the shape of its config.json."),
        FieldName::Gpu | FieldName::Count | FieldName::AlreadyUsed | FieldName::ProcessCap => {
            hardware_field(name)
        }
        FieldName::Framework
        | FieldName::DataParallel
        | FieldName::TensorParallel
        | FieldName::SequenceParallel
        | FieldName::PipelineParallel
        | FieldName::VirtualStages
        | FieldName::ContextParallel
        | FieldName::ExpertParallel
        | FieldName::ReshardAfterForward
        | FieldName::MixedPrecision
        | FieldName::ReduceDtype
        | FieldName::CpuOffload
        | FieldName::BucketView
        | FieldName::BucketCap
        | FieldName::MetaInit => parallel_field(name),
        FieldName::Adapter
        | FieldName::AdapterRank
        | FieldName::AdapterTargets
        | FieldName::AdapterDropout => adapter_field(name),
        FieldName::MicroBatch => ("Micro-batch", "Sequences or images per forward pass."),
        FieldName::SeqLen => ("Sequence length", "Tokens per sequence."),
        FieldName::TargetLen => {
            ("Target length", "Tokens per sequence of labels, which the decoder reads.")
        }
        FieldName::GradAccum => ("Accumulation", "Forward and backward passes per optimizer step."),
        FieldName::Precision => {
            ("Number format", "What weights, gradients and activations are kept in.")
        }
        FieldName::Tf32 => (
            "TF32 for fp32 products",
            "torch.backends.cuda.matmul.allow_tf32; faster, same memory.",
        ),
        FieldName::Optimizer => ("Update rule", "torch.optim.AdamW keeps two states a parameter."),
        FieldName::Implementation => (
            "Implementation",
            "foreach needs temporaries as large as the weights; fused needs none.",
        ),
        FieldName::Momentum => ("Momentum", "Above 0, one more buffer a parameter is kept."),
        FieldName::Centered => {
            ("Centered", "RMSprop keeps a mean of the gradients as well: one more buffer.")
        }
        FieldName::ClipGradNorm => ("Clip the gradient norm", "clip_grad_norm_ before the step."),
        FieldName::InBackward => (
            "Step in backward",
            "A hook updates each parameter as soon as its gradient is there, which then goes.",
        ),
        FieldName::SetToNone => {
            ("Free gradients after the step", "zero_grad(set_to_none=True), PyTorch's default.")
        }
        FieldName::Checkpointing => (
            "Activations",
            "Checkpointed layers keep their input alone and run forward again in backward.",
        ),
        FieldName::Attention
        | FieldName::Loss
        | FieldName::ChannelsLast
        | FieldName::ActivationOffload
        | FieldName::Compile
        | FieldName::ExpandableSegments
        | FieldName::AllocConf => stack_field(name),
    };
    FieldWords { label, help }
}

/// The machine.
const fn hardware_field(name: FieldName) -> (&'static str, &'static str) {
    match name {
        FieldName::Gpu => ("GPU", "Memory as the driver shows it."),
        FieldName::Count => ("GPUs", "Of the whole job. One of them is simulated."),
        FieldName::AlreadyUsed => {
            ("Already in use", "Memory of the card that other processes hold.")
        }
        FieldName::ProcessCap => {
            ("Process cap", "torch.cuda.set_per_process_memory_fraction, as a size.")
        }
        _ => ("", ""),
    }
}

/// The software that runs it.
const fn stack_field(name: FieldName) -> (&'static str, &'static str) {
    match name {
        FieldName::Attention => ("Attention", "attn_implementation of transformers."),
        FieldName::Loss => ("Loss", "How the cross-entropy over the vocabulary is computed."),
        FieldName::ChannelsLast => (
            "Channels last",
            "model.to(memory_format=torch.channels_last): a pixel's channels lie side by side.",
        ),
        FieldName::ActivationOffload => (
            "Activations on the host",
            "torch.autograd.graph.save_on_cpu: what backward needs waits in pinned host memory.",
        ),
        FieldName::Compile => (
            "Compiled",
            "torch.compile(model): fused kernels; what forward keeps is a minimum cut.",
        ),
        FieldName::ExpandableSegments => {
            ("Expandable segments", "expandable_segments:True; less fragmentation.")
        }
        FieldName::AllocConf => ("PYTORCH_CUDA_ALLOC_CONF", "As given to the process."),
        _ => ("", ""),
    }
}

/// How several GPUs share the work.
const fn parallel_field(name: FieldName) -> (&'static str, &'static str) {
    match name {
        FieldName::TensorParallel => (
            "Tensor parallelism",
            "GPUs that share each matrix product. With transformers (parallelize_module): 1 or, for now, all of them.",
        ),
        FieldName::Framework => (
            "Framework",
            "Megatron-core trains the same shape with its own layers, and has pipelines.",
        ),
        FieldName::SequenceParallel => (
            "Sequence parallelism",
            "Between the products, the tensor-parallel GPUs share the sequence, too.",
        ),
        FieldName::PipelineParallel => {
            ("Pipeline stages", "The layers are dealt to so many GPUs, which run 1F1B.")
        }
        FieldName::VirtualStages => (
            "Virtual stages",
            "Parts of a stage that lie between other stages: the interleaved schedule.",
        ),
        FieldName::ContextParallel => {
            ("Context parallelism", "GPUs that share each sequence, attention included.")
        }
        FieldName::ExpertParallel => {
            ("Expert parallelism", "Replicas that share the experts of a layer.")
        }
        FieldName::ReshardAfterForward => (
            "Reshard after forward",
            "reshard_after_forward: a layer's whole weights go after its forward and are gathered again in backward.",
        ),
        FieldName::MixedPrecision => (
            "Layers compute in bf16",
            "MixedPrecisionPolicy(param_dtype=torch.bfloat16); the shards keep their own format.",
        ),
        FieldName::ReduceDtype => {
            ("Gradients are reduced", "In which format: reduce_dtype of MixedPrecisionPolicy.")
        }
        FieldName::CpuOffload => (
            "Shards in host memory",
            "CPUOffloadPolicy(): weights, gradients and states leave the GPU between uses.",
        ),
        FieldName::BucketView => (
            "Gradients as bucket views",
            "gradient_as_bucket_view: gradients lie in the buckets, not beside them.",
        ),
        FieldName::BucketCap => ("Bucket size", "bucket_cap_mb: the most that is reduced at once."),
        FieldName::MetaInit => (
            "Build without memory",
            "torch.device(\"meta\"), then to_empty: the whole model never stands on the GPU.",
        ),
        _ => (
            "Data parallelism",
            "DDP: every GPU keeps everything and averages gradients. FSDP2 (fully_shard): each keeps its share of weights, gradients and states.",
        ),
    }
}

/// Small trainable parts beside a frozen model.
const fn adapter_field(name: FieldName) -> (&'static str, &'static str) {
    match name {
        FieldName::AdapterRank => ("Rank", "r: inner size of the two factors."),
        FieldName::AdapterTargets => {
            ("Adapted modules", "target_modules: in every layer, those that get the two factors.")
        }
        FieldName::AdapterDropout => ("Dropout", "lora_dropout, of the adapter's input."),
        _ => (
            "LoRA",
            "Two narrow factors beside frozen weights are trained, as peft writes them; only they get gradients and states.",
        ),
    }
}
