//! Faults and notes in Chinese, by rule and arguments; the simulator itself writes them in English only.

use simulator::wire::note::Topic;
use simulator::wire::{Fault, Note, Rule};

/// One sentence; without arguments it names the rule alone.
pub(super) fn fault(fault: &Fault) -> String {
    let arguments: Vec<&str> = fault.arguments.iter().map(String::as_str).collect();
    if let Some(text) = of_field(fault, &arguments) {
        return text;
    }
    match (fault.rule, arguments.as_slice()) {
        (Rule::Syntax, _) => format!("文本不是合法的 JSON 或 TOML：{}", fault.message),
        (Rule::Missing, _) => "缺少该字段。".into(),
        (Rule::UnknownField, _) => "没有这个字段。".into(),
        (Rule::Type, [wanted, found]) => format!("类型不对：应为 {wanted}，实为 {found}。"),
        (Rule::Range, [found, low, high]) => {
            format!("{found} 超出范围，应在 {low} 到 {high} 之间。")
        }
        (Rule::Choice, [found, words @ ..]) => {
            format!("{found} 不在可选值之中：{}。", words.join("、"))
        }
        (Rule::UnknownId, [id, ..]) => format!("目录中没有 {id}。"),
        (Rule::Divisible, [value, .., divisor]) => format!("{value} 必须是 {divisor} 的整数倍。"),
        (Rule::Version, _) => "格式版本不受支持。".into(),
        (Rule::Unsupported, _) => format!("暂不支持：{}", fault.message),
        (Rule::Conflict, _) => format!("与其他字段矛盾：{}", fault.message),
        _ => fault.message.clone(),
    }
}

/// What is said of one field alone.
fn of_field(fault: &Fault, arguments: &[&str]) -> Option<String> {
    let text = match (fault.rule, fault.path.as_str()) {
        _ if fault.mends.iter().any(|mend| mend.path == "optimizer.in_backward") => {
            "在反向中更新时，每个梯度用完即释放，与该选项不能同时使用。"
        }
        _ if fault.mends.iter().any(|mend| mend.path == "stack.activation_offload") => {
            "激活卸载暂不支持这一选项。"
        }
        _ if fault.mends.iter().any(|mend| mend.path == "stack.compile") => {
            "编译后的程序暂不支持这一选项。"
        }
        (Rule::Missing, "parallel.data") => "模型有多个副本，请选择它们如何共享梯度。",
        (Rule::Missing, "adapter.targets") => "请至少选择一个模块。",
        (Rule::Conflict, "parallel.data") => "只有一个副本，没有可分片的内容。",
        (Rule::Conflict, "workload.seq_len") if arguments.is_empty() => {
            "该模型读取图像，没有序列长度。"
        }
        (Rule::Conflict, "workload.target_len") => "该模型的标签与输入等长。",
        (Rule::Conflict, "optimizer.centered") => "只有 RMSprop 可以中心化。",
        (Rule::Conflict, "optimizer.momentum") => "只有 SGD 和 RMSprop 可以选择动量。",
        (Rule::Conflict, "precision") if fault.message.starts_with("flash-attn") => {
            "FlashAttention 只支持 fp16 和 bf16。"
        }
        (Rule::Conflict, "optimizer.clip_grad_norm" | "precision") => {
            "张量并行时部分梯度是分布式张量，部分不是，PyTorch 无法一并处理。"
        }
        (Rule::Unsupported, "parallel.tensor") => match arguments {
            [class] if !class.contains(' ') => {
                return Some(format!("暂不支持 {class} 的张量并行。"));
            }
            _ => "暂不支持张量并行与数据并行同时使用。",
        },
        (Rule::Conflict, "stack.attention") => "该 GPU 的计算能力不支持这一内核。",
        (Rule::Unsupported, "stack.attention") => "暂不支持该模型使用 FlashAttention。",
        (Rule::Unsupported, "parallel.fsdp.reduce_dtype") => "暂不支持用 bf16 归约 fp32 梯度。",
        (Rule::Unsupported, "adapter") => "暂不支持分片模型的适配器。",
        (Rule::Unsupported, "adapter.targets") => "暂不支持该模型的适配器。",
        (Rule::Unsupported, "checkpointing") => "该模型没有重计算。",
        (Rule::Unsupported, "stack.channels_last") => "该模型不支持通道在后的布局。",
        (Rule::Unsupported, "optimizer.name") => "暂不支持用该优化器更新分片的参数。",
        _ => return None,
    };
    Some(text.to_owned())
}

/// One sentence; without arguments it names the topic alone.
pub(super) fn note(note: &Note) -> String {
    let arguments: Vec<&str> = note.arguments.iter().map(String::as_str).collect();
    match (note.topic, arguments.as_slice()) {
        (Topic::PositionsExceeded, [tokens, positions]) => {
            format!(
                "序列长 {tokens}，超出模型训练时的 {positions} 个位置；可以运行，但超出其训练范围。"
            )
        }
        (Topic::PositionsExceeded, _) => "序列长度超出模型训练时的位置数。".into(),
        (Topic::NeverMeasured, _) => "该型号尚未实测，池外显存为估算值。".into(),
        (Topic::UnverifiedGpu, _) => "该 GPU 的部分规格未经出处核实。".into(),
        (Topic::CompiledApproximation, _) => {
            "编译后的程序以融合算子组近似，峰值误差在百分之几以内，时间未经比对。".into()
        }
        (Topic::UntimedCommunication, _) => "GPU 之间的通信未计时，步时与速率不含通信。".into(),
        (Topic::UnverifiedModel, _) => "该模型的部分字段未经出处核实。".into(),
        (Topic::ConvolutionWorkspaces, _) => {
            "cuDNN 卷积的工作区大小没有公开规则；这里用 H200 上实测的规则，误差带按最大的一个放宽。"
                .into()
        }
        (Topic::FromSource, _) => "该选项按源码实现，尚无 GPU 实测数据。".into(),
    }
}
