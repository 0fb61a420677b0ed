//! Where the kernels of `flash-attn` can run.

use super::families::Architecture;
use super::words::Word;
use crate::wire::scenario::{Attention, Framework, Precision};
use crate::wire::{Fault, Faults, GpuProfile, Rule, Scenario};

/// Adds a fault for each field that keeps `flash-attn` from running, or from being simulated.
pub(super) fn check(
    scenario: &Scenario,
    architecture: Option<&Architecture>,
    gpu: Option<&GpuProfile>,
    faults: &mut Faults,
) {
    let hopper = match scenario.stack.attention {
        Attention::Sdpa | Attention::Eager => return,
        Attention::FlashAttention2 => false,
        Attention::FlashAttention3 => true,
    };
    let path = "stack.attention";
    let mut fault = |path: &str, rule: Rule, message: String, arguments: Vec<String>, mend| {
        faults.push(Fault { arguments, ..Fault::new(path, rule, message) }.mend(path, mend));
    };
    if scenario.precision == Precision::Fp32 {
        let message = "flash-attn takes fp16 and bf16 alone (`FlashAttention only support fp16 and bf16 \
                       data type`)";
        fault("precision", Rule::Conflict, message.to_owned(), Vec::new(), "bf16");
    }
    let capability = gpu.and_then(|gpu| gpu.compute_capability.as_deref());
    let major = capability.and_then(|text| text.split('.').next()?.parse::<u32>().ok());
    let runs = major.is_none_or(|major| if hopper { major == 9 } else { 8 <= major });
    if let Some(gpu) = gpu.filter(|_| !runs) {
        let word = scenario.stack.attention.word();
        let wanted = if hopper { "9.0" } else { "8.0 or newer" };
        let message =
            format!("`{word}` runs on compute capability {wanted}, which {} is not", gpu.name);
        fault(path, Rule::Conflict, message, Vec::from([gpu.name.clone(), wanted.into()]), "sdpa");
    }
    let Some(architecture) = architecture else { return };
    let class = architecture.family().class();
    let is_other = match architecture {
        Architecture::Llama(config) => config.latent.is_some(),
        Architecture::Falcon(_) | Architecture::T5(_) | Architecture::Vision(_) => true,
        _ => scenario.stack.framework != Framework::Transformers,
    };
    if is_other || !architecture.family().flash_head_dim() {
        let message = format!("flash-attn in {class} is not simulated yet");
        fault(path, Rule::Unsupported, message, Vec::from([class.to_owned()]), "sdpa");
    }
}

#[cfg(test)]
mod tests {
    use crate::catalog::Catalog;
    use crate::scenario::{Format, read_valid};
    use crate::wire::Rule;

    #[test]
    fn what_keeps_it_from_running_is_a_fault() {
        let check = |model: &str, gpu: &str, version: u32, rest: &str| {
            let text = format!(
                "version = 1\n{rest}\n[model]\nid = \"{model}\"\n[hardware]\ngpu = \"{gpu}\"\n[workload]\n\
                 micro_batch = 1\nseq_len = 128\n[stack]\nattention = \"flash_attention_{version}\"\n"
            );
            let faults = read_valid(&text, Format::Toml, &Catalog::builtin()).err();
            faults.map(|faults| (faults.0[0].path.clone(), faults.0[0].rule))
        };
        let at = |path: &str, rule| Some((path.to_owned(), rule));
        assert_eq!(check("llama-3.2-1b", "h100-sxm", 3, ""), None);
        assert_eq!(check("llama-3.2-1b", "a100-sxm-80gb", 2, "precision = \"amp_fp16\""), None);
        let conflict = |path| at(path, Rule::Conflict);
        assert_eq!(
            check("llama-3.2-1b", "h100-sxm", 2, "precision = \"fp32\""),
            conflict("precision")
        );
        assert_eq!(check("llama-3.2-1b", "a100-sxm-80gb", 3, ""), conflict("stack.attention"));
        let unsupported = at("stack.attention", Rule::Unsupported);
        assert_eq!(check("t5-small", "h100-sxm", 2, ""), unsupported);
    }
}
