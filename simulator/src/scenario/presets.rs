//! Good starting points for the page and the command line.

use crate::wire::Scenario;
use crate::wire::parallel::{DataParallel, Parallel};
use crate::wire::scenario::{
    Attention, Checkpointing, Framework, Hardware, Implementation, Model, Optimizer, Precision,
    SCENARIO_VERSION, Stack, Workload,
};

/// A starting point.
#[derive(Clone, Debug, PartialEq)]
pub struct Preset {
    /// Id in addresses and on the command line.
    pub id: &'static str,
    /// What it shows, in English.
    pub name: &'static str,
    /// The scenario.
    pub scenario: Scenario,
}

/// What differs between the presets.
struct Choice {
    id: &'static str,
    name: &'static str,
    model: &'static str,
    gpu: &'static str,
    micro_batch: u64,
    seq_len: u64,
    precision: Precision,
    checkpointing: Checkpointing,
    attention: Attention,
    implementation: Implementation,
    layout: Option<Layout>,
}

/// Megatron-core over several GPUs, with sequence parallelism and the distributed optimizer.
#[derive(Clone, Copy)]
struct Layout {
    count: u64,
    tensor: u64,
    pipeline: u64,
    micro_batches: u64,
}

const LLAMA_1B: Choice = Choice {
    id: "llama-3.2-1b",
    name: "Llama 3.2 1B, pure bf16, on one H200",
    model: "llama-3.2-1b",
    gpu: "h200-sxm",
    micro_batch: 2,
    seq_len: 4096,
    precision: Precision::Bf16,
    checkpointing: Checkpointing::None,
    attention: Attention::Sdpa,
    implementation: Implementation::Foreach,
    layout: None,
};

const CHOICES: [Choice; 7] = [
    LLAMA_1B,
    Choice {
        id: "llama-3.1-8b-checkpointed",
        name: "Llama 3.1 8B with checkpointing: the optimizer step is the peak",
        model: "llama-3.1-8b",
        checkpointing: Checkpointing::Full,
        ..LLAMA_1B
    },
    Choice {
        id: "llama-3.1-8b-fused-80gb",
        name: "Llama 3.1 8B on 80 GB: the fused optimizer, and no room to spare",
        model: "llama-3.1-8b",
        gpu: "h100-sxm",
        micro_batch: 1,
        checkpointing: Checkpointing::Full,
        implementation: Implementation::Fused,
        ..LLAMA_1B
    },
    Choice {
        id: "gpt2-autocast",
        name: "GPT-2 small under autocast with eager attention on a 24 GB card",
        model: "gpt2",
        gpu: "rtx-4090",
        micro_batch: 8,
        seq_len: 1024,
        precision: Precision::AmpBf16,
        attention: Attention::Eager,
        ..LLAMA_1B
    },
    Choice {
        id: "qwen2.5-0.5b-logits",
        name: "Qwen2.5 0.5B: a small model whose logits fill the card",
        model: "qwen2.5-0.5b",
        gpu: "a100-sxm-80gb",
        micro_batch: 4,
        ..LLAMA_1B
    },
    Choice {
        id: "qwen3-8b-fp32-weights",
        name: "Qwen3 8B with fp32 weights under autocast: 16 bytes a parameter",
        model: "qwen3-8b",
        gpu: "b200-sxm",
        micro_batch: 1,
        seq_len: 4096,
        precision: Precision::AmpBf16,
        checkpointing: Checkpointing::Full,
        ..LLAMA_1B
    },
    Choice {
        id: "llama-3.1-70b-3d",
        name: "Llama 3.1 70B on 64 H100: tensor 8 × pipeline 4 in Megatron-core",
        model: "llama-3.1-70b",
        gpu: "h100-sxm",
        micro_batch: 1,
        seq_len: 8192,
        layout: Some(Layout { count: 64, tensor: 8, pipeline: 4, micro_batches: 32 }),
        ..LLAMA_1B
    },
];

/// All presets; the first is the page's default.
pub fn presets() -> Vec<Preset> {
    CHOICES.iter().map(preset).collect()
}

fn preset(choice: &Choice) -> Preset {
    let optimizer = Optimizer { implementation: choice.implementation, ..Optimizer::default() };
    let layout = choice.layout.map(Layout::parallel);
    let framework =
        if layout.is_some() { Framework::MegatronCore } else { Framework::Transformers };
    let scenario = Scenario {
        version: SCENARIO_VERSION,
        name: None,
        model: Model::Catalog { id: choice.model.to_owned() },
        hardware: Hardware {
            gpu: choice.gpu.to_owned(),
            count: choice.layout.map_or(1, |layout| layout.count),
            already_used_bytes: 0,
            process_cap_bytes: None,
        },
        parallel: layout.unwrap_or_default(),
        workload: Workload {
            micro_batch: choice.micro_batch,
            seq_len: choice.seq_len,
            target_len: 0,
            grad_accum: choice.layout.map_or(1, |layout| layout.micro_batches),
        },
        precision: choice.precision,
        optimizer,
        checkpointing: choice.checkpointing,
        adapter: None,
        stack: Stack { attention: choice.attention, framework, ..Stack::default() },
    };
    Preset { id: choice.id, name: choice.name, scenario }
}

impl Layout {
    fn parallel(self) -> Parallel {
        Parallel {
            tensor: self.tensor,
            sequence: true,
            pipeline: self.pipeline,
            data: Some(DataParallel::DistributedOptimizer),
            ..Parallel::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::scenario::validate;

    #[test]
    fn every_preset_is_valid_and_found_by_its_own_id() {
        let catalog = Catalog::builtin();
        let presets = presets();
        for (index, preset) in presets.iter().enumerate() {
            if let Err(faults) = validate(&preset.scenario, &catalog) {
                panic!("{}: {faults}", preset.id);
            }
            let same = presets.iter().position(|other| other.id == preset.id);
            assert_eq!(same, Some(index));
        }
    }
}
