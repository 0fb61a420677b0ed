//! What is switched on to save memory, and what it cannot be combined with.

use super::families::Architecture;
use crate::wire::parallel::{DataParallel, Parallel};
use crate::wire::scenario::{Framework, Precision};
use crate::wire::{Fault, Faults, Rule, Scenario};

/// Adds a fault for each field that the optimizer in backward cannot be beside.
pub(super) fn check_in_backward(scenario: &Scenario, faults: &mut Faults) {
    if !scenario.optimizer.in_backward {
        return;
    }
    let off = |fault: Fault| fault.mend("optimizer.in_backward", false);
    let mut conflict = |is_set: bool, path: &str, reason: &str| {
        if is_set {
            faults.push(off(Fault::new(path, Rule::Conflict, reason)));
        }
    };
    let accumulates = 1 < scenario.workload.grad_accum;
    let reason = "gradients that are used as they come are not summed over micro-batches";
    conflict(accumulates, "workload.grad_accum", reason);
    let reason = "there is no norm of all gradients where each goes before the next comes";
    conflict(scenario.optimizer.clip_grad_norm, "optimizer.clip_grad_norm", reason);
    let reason = "a scaler must see all gradients before any is used";
    conflict(scenario.precision == Precision::AmpFp16, "precision", reason);
    let reason = "gradients that are used as they come are not kept";
    conflict(!scenario.optimizer.set_to_none, "optimizer.set_to_none", reason);

    let mut unsupported = |is_set: bool, path: &str, what: &str| {
        if is_set {
            let reason = format!("an optimizer in backward with {what} is not simulated yet");
            let fault = Fault::new(path, Rule::Unsupported, reason);
            faults.push(off(fault.arguments([what.to_owned()])));
        }
    };
    let several = 1 < scenario.hardware.count || scenario.parallel != Parallel::default();
    unsupported(several, "parallel", "several GPUs");
    unsupported(scenario.stack.compile, "stack.compile", "a compiled model");
    let other = scenario.stack.framework != Framework::Transformers;
    unsupported(other, "stack.framework", "Megatron-core");
}

/// Adds a fault for each field that saved tensors in host memory cannot be beside.
pub(super) fn check_offload(
    scenario: &Scenario,
    architecture: Option<&Architecture>,
    faults: &mut Faults,
) {
    if !scenario.stack.activation_offload {
        return;
    }
    let mut unsupported = |is_set: bool, path: &str, what: &str| {
        if is_set {
            let reason = format!("saved tensors in host memory with {what} are not simulated yet");
            let fault = Fault::new(path, Rule::Unsupported, reason).arguments([what.to_owned()]);
            faults.push(fault.mend("stack.activation_offload", false));
        }
    };
    let parallel = &scenario.parallel;
    let shards = parallel.data.is_some_and(|data| data != DataParallel::Ddp);
    unsupported(shards || 1 < parallel.tensor, "parallel", "parameters in shards");
    unsupported(scenario.stack.compile, "stack.compile", "a compiled model");
    let other = scenario.stack.framework != Framework::Transformers;
    unsupported(other, "stack.framework", "Megatron-core");
    let convolves = matches!(architecture, Some(Architecture::Vision(_)));
    unsupported(convolves, "stack.activation_offload", "a model of torchvision");
}

#[cfg(test)]
mod tests {
    use crate::catalog::Catalog;
    use crate::scenario::{Format, read_valid};
    use crate::wire::Rule;

    #[test]
    fn an_optimizer_in_backward_sees_one_gradient_alone() {
        let text = "version = 1\nprecision = \"amp_fp16\"\n[model]\nid = \"gpt2\"\n\
                    [hardware]\ngpu = \"h200-sxm\"\n\
                    [workload]\nmicro_batch = 1\nseq_len = 128\ngrad_accum = 2\n\
                    [optimizer]\nname = \"adamw\"\nin_backward = true\nclip_grad_norm = true\n";
        let faults = read_valid(text, Format::Toml, &Catalog::builtin()).unwrap_err();
        let found: Vec<_> = faults.0.iter().map(|f| (f.path.as_str(), f.rule)).collect();
        let conflict = |path| (path, Rule::Conflict);
        let paths = ["workload.grad_accum", "optimizer.clip_grad_norm", "precision"];
        assert_eq!(found, paths.map(conflict));
    }
}
