//! What the rows say in words, as they say it.

use serde_json::Value;

use crate::catalog::Catalog;
use crate::wire::GpuProfile;
use crate::wire::published::PublishedRun;
use crate::wire::scenario::{BaseFormat, Precision};

/// The software's name without its version: what runs are summed up by.
pub(super) fn family(framework: &str) -> String {
    let name = framework.split([' ', '(', '/']).next().unwrap_or(framework);
    name.to_lowercase()
}

/// Whether the times are those of steady steps over full sequences.
pub(super) fn times_count(run: &PublishedRun) -> bool {
    const AGAINST: [&str; 4] =
        ["use the memory only", "do not use it for tokens/s", "variable length", "dynamic padding"];
    // The clock knows no collectives between ranks that share products, layers or sequences.
    let pipelined = run.framework.starts_with("Megatron-DeepSpeed");
    if pipelined || ["tp", "pp", "cp"].iter().any(|key| 1 < degree(run, key)) {
        return false;
    }
    !AGAINST.iter().any(|words| run.notes.contains(words) || run.other.contains(words))
}

/// Why a row's prediction is more than 15 % off, where that is known (tests/published/README.md).
pub(super) fn known_miss(id: &str) -> Option<&'static str> {
    const LOGITS: &str = "which node was read is not stated: the last has the logits";
    const MISSES: [(&str, &str); 11] = [
        (
            "litgpt-phi-3-full",
            "the figure is less than the states, weights and gradients of the row",
        ),
        ("fsdpqlora-4090-7b-lora-offload", "reserved memory of several streams under offload"),
        ("hf-bertlarge-v100", "the head of masked language modelling stands for the classifier"),
        (
            "ado-c-granite-3b-code-base-128k-lora-1n1g-s1024",
            "longer sequences of as many tokens are met",
        ),
        ("bs-1b3-v100-32-full-tp1pp4", LOGITS),
        ("bs-1b3-v100-16-full-tp1pp4", LOGITS),
        ("bs-1b3-v100-16-full-tp1pp8", LOGITS),
        ("bs-1b3-v100-16-full-tp1pp2", "the same job showed 1 GB less on cards of 32 GB"),
        ("bs-1b3-v100", "more was seen without a pipeline than the engine's source explains"),
        ("bloom-prequel-02-25-h14336-l72-tp2", "the last stage's logits are the highest"),
        (
            "bloom-prequel",
            "at twice the micro-batch the layout is met; the figure rises by more than activations",
        ),
    ];
    MISSES.iter().find(|(prefix, _)| id.starts_with(prefix)).map(|(_, cause)| *cause)
}

/// What no scenario says, whatever the other fields are.
pub(super) fn refusals(run: &PublishedRun) -> Vec<String> {
    const TECHNIQUES: [(&str, &str); 7] = [
        ("method adapter", "adapters other than LoRA are not simulated"),
        ("adapter, trainable", "adapters other than LoRA are not simulated"),
        ("adapter_v2", "adapters other than LoRA are not simulated"),
        ("torch.compile off", ""),
        ("compile", "compiled programs are not simulated yet"),
        ("activation offload", "offloading of activations is not simulated yet"),
        ("liger", "Liger's kernels are simulated only for the loss"),
    ];
    let mut reasons = Vec::new();
    if run.kind == "infer" {
        reasons.push("inference is not simulated yet".to_owned());
    }
    if run.measured.oom {
        reasons.push("the run went out of memory: there is no peak to compare".to_owned());
    }
    if run.notes.contains("Device is full") {
        let reason =
            "the device is full and the paged optimizer spills to the host: no peak to compare";
        reasons.push(reason.to_owned());
    }
    let other = run.other.to_lowercase();
    let mut rest = other.as_str();
    for (words, reason) in TECHNIQUES {
        if !rest.contains(words) {
            continue;
        }
        if reason.is_empty() {
            rest = "";
        } else if reasons.iter().all(|said| said != reason) {
            reasons.push(reason.to_owned());
        }
    }
    reasons
}

/// A degree of the layout; 1 where the row does not say it.
pub(super) fn degree(run: &PublishedRun, key: &str) -> u64 {
    run.parallel.get(key).and_then(Value::as_u64).unwrap_or(1)
}

/// Whether replicas share their weights.
pub(super) fn is_sharded(run: &PublishedRun) -> bool {
    run.parallel.get("fsdp").is_some_and(Value::is_string)
}

/// What a row says of its adapter.
pub(super) struct SaidLora {
    pub(super) rank: Option<u64>,
    pub(super) roles: Option<Vec<String>>,
}

/// The adapter of a row: `lora_r 8 on [query, value]`, `method lora (r4 alpha16, default …)`,
/// `lora, trainable params 4194304`, `LoRA; …`. Nothing where all parameters are trained.
pub(super) fn lora(run: &PublishedRun) -> Option<SaidLora> {
    let other = run.other.to_lowercase();
    if !other.contains("lora") || other.contains("lora_r none") {
        return None;
    }
    let rank = number_after(&other, "lora_r ").filter(|_| other.contains("lora_r "));
    let rank = rank.or_else(|| other.contains("(r").then(|| number_after(&other, "(r"))?);
    let list = other.split_once("on [").and_then(|(_, rest)| rest.split_once(']'));
    let roles = list.map(|(list, _)| list.split(", ").map(str::to_owned).collect());
    Some(SaidLora { rank, roles })
}

/// Whether weights are held in a narrower format than they are multiplied in.
pub(super) fn is_quantised(precision: &str) -> bool {
    const OTHER: [&str; 7] = ["fp8", "float8", "fp4", "nf4", "8-bit", "int8", "4-bit"];
    OTHER.iter().any(|other| precision.contains(other))
}

/// How the frozen weights are held: `nf4`, `nf4-dq`.
pub(super) fn base(precision: Option<&str>) -> BaseFormat {
    match precision.unwrap_or("") {
        words if words.contains("nf4-dq") => BaseFormat::Nf4Double,
        words if words.contains("nf4") => BaseFormat::Nf4,
        _ => BaseFormat::Whole,
    }
}

/// Number formats, and whether fp32 matrix products run as TF32.
pub(super) fn precision(words: Option<&str>) -> Result<(Precision, bool), String> {
    let words = words.ok_or("the number format is not stated")?;
    let text = words.to_lowercase();
    let unknown = || format!("the number format \"{words}\" is not simulated yet");
    if is_quantised(&text) && base(Some(words)) == BaseFormat::Whole {
        return Err(unknown());
    }
    let is_mixed = (text.contains("mixed") && !text.contains("mixed_precision \"no\""))
        || text.split(' ').any(|word| word == "amp" || word == "amp,");
    let is_bf16 = text.contains("bf16") || text.contains("bfloat16");
    match (is_mixed, is_bf16, text.contains("fp16"), text.contains("32")) {
        (true, true, ..) => Ok((Precision::AmpBf16, false)),
        (true, false, true, _) => Ok((Precision::AmpFp16, false)),
        (false, true, ..) => Ok((Precision::Bf16, false)),
        (false, false, false, true) => Ok((Precision::Fp32, text.contains("tf32"))),
        _ => Err(unknown()),
    }
}

/// The catalog's GPU that a row means: its name, its memory, its form.
pub(super) fn gpu(words: &str, catalog: &Catalog) -> Result<String, String> {
    let text: String = words
        .to_lowercase()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .collect();
    let memory_gb = memory(&text);
    let fits = |gpu: &&GpuProfile| {
        let stem = stem(&gpu.id);
        let rest = text.strip_prefix(stem.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            && memory_gb.is_none_or(|gb| (gpu.memory_gb - gb).abs() < 0.07 * gb)
            && !(text.contains("pcie") && gpu.id.contains("sxm"))
            && !(text.contains("sxm") && gpu.id.contains("pcie"))
    };
    // The longest name is the most exact one; soldered modules come before cards.
    let rank = |gpu: &&GpuProfile| (stem(&gpu.id).len(), gpu.id.contains("sxm"));
    let found = catalog.gpus.iter().filter(fits).max_by_key(rank);
    found
        .map(|gpu| gpu.id.clone())
        .ok_or_else(|| format!("the catalog has no GPU like \"{words}\""))
}

/// A GPU's id without form and memory: `a100` of `a100-sxm-80gb`.
fn stem(id: &str) -> String {
    let is_detail = |word: &&str| !matches!(*word, "sxm" | "pcie") && !word.ends_with("gb");
    id.split('-').filter(is_detail).collect::<Vec<_>>().join("-")
}

/// The memory that a GPU's name states, GB.
fn memory(text: &str) -> Option<f64> {
    text.split('-').find_map(|word| word.strip_suffix("gb")?.parse().ok())
}

/// The first whole number after a word.
pub(super) fn number_after(text: &str, word: &str) -> Option<u64> {
    let rest = &text[text.find(word)? + word.len()..];
    let digits = rest.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// A whole number of a few.
pub(super) fn whole(number: f64) -> Option<u64> {
    const MANY: f64 = 1e9;
    if number.fract() != 0.0 || !(0.0..=MANY).contains(&number) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, not negative and small"
    )]
    Some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_in_words() {
        let catalog = Catalog::builtin();
        let check = |words: &str, expect: Option<&str>| {
            assert_eq!(gpu(words, &catalog).ok().as_deref(), expect, "{words}");
        };
        check("A100-SXM4-80GB", Some("a100-sxm-80gb"));
        check("A100-80GB SXM (Jean Zay)", Some("a100-sxm-80gb"));
        check("A100-PCIe-80GB", Some("a100-pcie-80gb"));
        check("A100-SXM4-40GB", Some("a100-sxm-40gb"));
        check("H100-80GB SXM (DGX H100)", Some("h100-sxm"));
        check("H100 SXM 96GB HBM2e 2.4TB/s, 500W limit", None);
        check("H200-141GB", Some("h200-sxm"));
        check("L40S-48GB (PCIe)", Some("l40s"));
        check("RTX 3090 Ti 24GB", Some("rtx-3090-ti"));
        check("RTX 3090 24GB (280W, PCIe)", Some("rtx-3090"));
        check("V100-32GB SXM (DGX-1)", Some("v100-sxm-32gb"));
        check("T4-16GB", Some("t4"));
        check("unstated (24GB-class capable)", None);
    }

    #[test]
    fn number_formats_in_words() {
        let check = |words: &str, expect: Option<(Precision, bool)>| {
            assert_eq!(precision(Some(words)).ok(), expect, "{words}");
        };
        check("bf16", Some((Precision::Bf16, false)));
        check("bf16 weights and AdamW states (accelerate mixed_precision \"no\")", {
            Some((Precision::Bf16, false))
        });
        check("bf16 mixed precision (accelerate bf16)", Some((Precision::AmpBf16, false)));
        check("fp16 AMP, NHWC", Some((Precision::AmpFp16, false)));
        check("fp32", Some((Precision::Fp32, false)));
        check("TF32", Some((Precision::Fp32, true)));
        check("fp16", None);
        check("bf16-true + nf4 base weights", Some((Precision::Bf16, false)));
        check("bf16 + float8 linear", None);
    }

    #[test]
    fn numbers_in_words() {
        let text = "gradient accumulation not in the file (default 4)";
        assert_eq!(number_after(text, "gradient accumulation"), Some(4));
        assert_eq!(number_after("fms-hf-tuning 2.7.1 (HF)", "fms-hf-tuning"), Some(2));
        assert_eq!(number_after("fms-hf-tuning (HF)", "fms-hf-tuning"), None);
        assert_eq!(number_after("litgpt", "fms-hf-tuning"), None);
        assert_eq!((whole(2.0), whole(0.5), whole(-1.0)), (Some(2), None, None));
    }
}
