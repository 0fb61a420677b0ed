//! What a compiled program cannot be combined with so far.

use super::families::Architecture;
use crate::wire::parallel::Parallel;
use crate::wire::scenario::{Attention, Checkpointing, Framework, Loss};
use crate::wire::{Fault, Faults, Rule, Scenario};

/// Adds a fault for each field that is not simulated together with `stack.compile`.
pub(super) fn check(scenario: &Scenario, architecture: Option<&Architecture>, faults: &mut Faults) {
    if !scenario.stack.compile {
        return;
    }
    let mut refuse = |is_set: bool, path: &str, what: &str| {
        if is_set {
            let message = format!("{what} under `torch.compile` is not simulated yet");
            let fault = Fault::new(path, Rule::Unsupported, message).arguments([what.to_owned()]);
            faults.push(fault.mend("stack.compile", false));
        }
    };
    let checkpoints = scenario.checkpointing != Checkpointing::None;
    refuse(checkpoints, "checkpointing", "checkpointing");
    refuse(scenario.adapter.is_some(), "adapter", "an adapter");
    let several = 1 < scenario.hardware.count || scenario.parallel != Parallel::default();
    refuse(several, "parallel", "a parallel layout");
    refuse(scenario.stack.loss != Loss::Transformers5, "stack.loss", "another loss");
    // Their routing depends on data, which breaks the graph in each layer.
    let mixes = architecture.is_some_and(has_experts);
    refuse(mixes, "stack.compile", "a mixture of experts");
    let convolves = matches!(architecture, Some(Architecture::Vision(_)));
    refuse(convolves, "stack.compile", "a model of torchvision");
    let attention = scenario.stack.attention;
    let flash = !matches!(attention, Attention::Sdpa | Attention::Eager);
    refuse(flash, "stack.attention", "flash-attn");
    let framework = scenario.stack.framework;
    refuse(framework != Framework::Transformers, "stack.framework", "Megatron-core");
}

fn has_experts(architecture: &Architecture) -> bool {
    matches!(architecture, Architecture::Llama(config) if config.experts.is_some())
}

#[cfg(test)]
mod tests {
    use crate::catalog::Catalog;
    use crate::scenario::{Format, read, validate};
    use crate::wire::Rule;

    #[test]
    fn what_is_not_compiled_is_a_fault_of_its_own_field() {
        let text = "version = 1\ncheckpointing = \"full\"\n[model]\nid = \"llama-3.2-1b\"\n\
                    [hardware]\ngpu = \"h200-sxm\"\ncount = 2\n[parallel]\ntensor = 2\n\
                    [workload]\nmicro_batch = 1\nseq_len = 128\n\
                    [stack]\ncompile = true\nloss = \"fused_linear\"\n";
        let scenario = read(text, Format::Toml).unwrap();
        let faults = validate(&scenario, &Catalog::builtin()).unwrap_err();
        for path in ["checkpointing", "parallel", "stack.loss"] {
            let found = faults.0.iter().find(|fault| fault.path == path).unwrap();
            assert_eq!(found.rule, Rule::Unsupported);
        }
    }
}
