//! Faults and notes in Chinese, by rule and arguments; the simulator itself writes them in English only.

use simulator::wire::note::Topic;
use simulator::wire::{Fault, Note, Rule};

/// One sentence; without arguments it names the rule alone.
pub(super) fn fault(fault: &Fault) -> String {
    let arguments: Vec<&str> = fault.arguments.iter().map(String::as_str).collect();
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
        (Topic::UnverifiedModel, _) => "该模型的部分字段未经出处核实。".into(),
    }
}
