//! 中文：各字段的名称与含义。

use super::FieldWords;
use crate::field::FieldName;

/// 字段的名称与说明。
pub(super) fn field(name: FieldName) -> FieldWords {
    let (label, help) = match name {
        FieldName::Model => ("模型", "transformers 的模型类，结构取自 config.json。"),
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
        FieldName::MicroBatch => ("微批大小", "一次前向的序列数或图像数。"),
        FieldName::SeqLen => ("序列长度", "每条序列的 token 数。"),
        FieldName::TargetLen => ("目标长度", "每条标签序列的 token 数，由解码器读取。"),
        FieldName::GradAccum => ("梯度累积", "每次优化器更新包含的前向与反向次数。"),
        FieldName::Precision => ("数值格式", "权重、梯度与激活所用的格式。"),
        FieldName::Tf32 => {
            ("fp32 矩阵乘使用 TF32", "torch.backends.cuda.matmul.allow_tf32，更快，显存不变。")
        }
        FieldName::Optimizer => ("更新规则", "AdamW 为每个参数保存两份状态。"),
        FieldName::Implementation => {
            ("实现方式", "foreach 需要与权重同量级的临时显存，fused 不需要。")
        }
        FieldName::Momentum => ("动量", "大于 0 时每个参数多保存一份缓冲。"),
        FieldName::Centered => ("中心化", "RMSprop 还保存梯度的均值：每个参数多一份缓冲。"),
        FieldName::ClipGradNorm => ("梯度范数裁剪", "更新前调用 clip_grad_norm_。"),
        FieldName::InBackward => ("反向中更新", "每个参数的梯度一算出就由钩子更新并释放。"),
        FieldName::SetToNone => {
            ("更新后释放梯度", "zero_grad(set_to_none=True)，PyTorch 的默认行为。")
        }
        FieldName::Checkpointing => ("激活", "重计算的层只保留输入，反向时再做一次前向。"),
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

/// 机器。
const fn hardware_field(name: FieldName) -> (&'static str, &'static str) {
    match name {
        FieldName::Gpu => ("GPU", "容量以驱动显示为准。"),
        FieldName::Count => ("GPU 数量", "整个任务使用的 GPU 数，模拟其中一张。"),
        FieldName::AlreadyUsed => ("已被占用", "其他进程占用的显存。"),
        FieldName::ProcessCap => {
            ("进程上限", "即 torch.cuda.set_per_process_memory_fraction，按容量填写。")
        }
        _ => ("", ""),
    }
}

/// 软件栈。
const fn stack_field(name: FieldName) -> (&'static str, &'static str) {
    match name {
        FieldName::Attention => ("注意力", "transformers 的 attn_implementation。"),
        FieldName::Loss => ("损失", "词表交叉熵的计算方式。"),
        FieldName::ChannelsLast => (
            "通道在后",
            "model.to(memory_format=torch.channels_last)：同一像素的各通道在内存中相邻。",
        ),
        FieldName::ActivationOffload => {
            ("激活卸载", "torch.autograd.graph.save_on_cpu：反向所需的张量暂存于锁页主机内存。")
        }
        FieldName::Compile => {
            ("编译", "torch.compile(model)：算子融合，前向保留的张量由最小割决定。")
        }
        FieldName::ExpandableSegments => ("可扩展段", "expandable_segments:True，可减少碎片。"),
        FieldName::AllocConf => ("PYTORCH_CUDA_ALLOC_CONF", "与传给进程的值相同。"),
        _ => ("", ""),
    }
}

/// 多卡如何分工。
const fn parallel_field(name: FieldName) -> (&'static str, &'static str) {
    match name {
        FieldName::TensorParallel => (
            "张量并行",
            "共同完成每个矩阵乘的 GPU 数；用 transformers（parallelize_module）时目前只能是 1 或全部。",
        ),
        FieldName::Framework => {
            ("框架", "Megatron-core 以自己的层训练同样结构的模型，并支持流水线。")
        }
        FieldName::SequenceParallel => ("序列并行", "矩阵乘之间，张量并行的各 GPU 也分担序列。"),
        FieldName::PipelineParallel => ("流水线级数", "各层分给多少级 GPU，按 1F1B 调度。"),
        FieldName::VirtualStages => {
            ("虚拟级数", "每级再分成若干段，与其他级交错（interleaved 调度）。")
        }
        FieldName::ContextParallel => ("上下文并行", "共同处理每条序列（含注意力）的 GPU 数。"),
        FieldName::ExpertParallel => ("专家并行", "分担每层专家的副本数。"),
        FieldName::ReshardAfterForward => {
            ("前向后重新分片", "reshard_after_forward：层的完整权重在前向后释放，反向时重新聚合。")
        }
        FieldName::MixedPrecision => (
            "层内用 bf16 计算",
            "MixedPrecisionPolicy(param_dtype=torch.bfloat16)，分片保持原格式。",
        ),
        FieldName::ReduceDtype => ("梯度归约格式", "MixedPrecisionPolicy 的 reduce_dtype。"),
        FieldName::CpuOffload => {
            ("分片放在主机内存", "CPUOffloadPolicy()：权重、梯度与优化器状态不用时不占显存。")
        }
        FieldName::BucketView => {
            ("梯度作为桶的视图", "gradient_as_bucket_view：梯度就放在通信桶内，不再另占一份。")
        }
        FieldName::BucketCap => ("通信桶大小", "bucket_cap_mb：一次归约的最大数据量。"),
        FieldName::MetaInit => {
            ("构建时不占显存", "torch.device(\"meta\") 后 to_empty：完整模型从不出现在 GPU 上。")
        }
        _ => (
            "数据并行",
            "DDP：每张卡保存全部内容，对梯度求平均。FSDP2（fully_shard）：权重、梯度与优化器状态分到各卡。",
        ),
    }
}

/// 冻结模型旁的可训练小矩阵。
const fn adapter_field(name: FieldName) -> (&'static str, &'static str) {
    match name {
        FieldName::AdapterRank => ("秩", "r：两个因子矩阵的内维。"),
        FieldName::AdapterTargets => ("作用模块", "target_modules：每一层中加上因子矩阵的模块。"),
        FieldName::AdapterDropout => ("Dropout", "lora_dropout，作用于适配器的输入。"),
        _ => ("LoRA", "按 peft 的写法，只训练冻结权重旁的两个窄矩阵；只有它们有梯度和优化器状态。"),
    }
}
