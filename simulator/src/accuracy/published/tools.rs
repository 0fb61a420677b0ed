//! The tools that published runs used, and what each does where a row is silent.

use crate::wire::parallel::{Fsdp, ReduceDtype};
use crate::wire::published::PublishedRun;
use crate::wire::scenario::{Attention, Implementation, Loss};

use super::words::{is_quantised, number_after};

/// What a tool does, and what of it is simulated differently.
#[expect(clippy::struct_excessive_bools, reason = "rows of a table: each says yes or no to all")]
pub(super) struct Tool {
    /// Words of `framework` that name it.
    pub(super) names: &'static [&'static str],
    /// Its attention.
    pub(super) attention: Attention,
    /// Its loss in full training and with an adapter.
    pub(super) losses: [Loss; 2],
    /// Whether it clips gradients by default.
    pub(super) clips: bool,
    /// What a bare `AdamW` is.
    pub(super) adamw: Implementation,
    /// Adapters by default.
    pub(super) lora: Lora,
    /// How weights are shared out.
    pub(super) sharding: Sharding,
    /// Whether adapters are flat parameters of their own.
    pub(super) splits_adapters: bool,
    /// Whether weights are loaded in bf16 even where layers then compute under autocast; accelerate turns
    /// those that are trained to fp32 when it shares them out.
    pub(super) loads_narrow: bool,
    /// Whether its classes have an output projection of their own, and no dropout.
    pub(super) unties: bool,
    /// What of it is simulated differently.
    pub(super) remark: &'static str,
}

/// A tool's adapters where the row does not say more.
pub(super) struct Lora {
    /// `r`; 0: there is no default.
    pub(super) rank: u64,
    /// Roles of the projections that get one.
    pub(super) targets: &'static [&'static str],
    /// Dropout before them.
    pub(super) dropout: f64,
    /// Whether they are fp32 beside narrower weights.
    pub(super) wide: bool,
    /// Whether the scales of 4-bit weights are quantised too.
    pub(super) nested: bool,
}

/// How a tool shares weights out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharding {
    /// `fully_shard`.
    Fsdp2,
    /// `FullyShardedDataParallel`, which is simulated as `fully_shard`.
    Fsdp1,
}

const NO_LORA: Lora = Lora { rank: 0, targets: &[], dropout: 0.0, wide: false, nested: false };

/// The tools, the most special name first.
///
/// # Source
///
/// - fms-hf-tuning: `tuning/config/peft_config.py` (`r=8`, `q_proj` and `v_proj`, dropout 0.05).
/// - transformers' Trainer: `max_grad_norm` is 1, and `optim` was transformers' own `AdamW`, one
///   parameter after the other, until 2022; BERT's attention was matrix products until 2024.
/// - litgpt: `litgpt/finetune/lora.py` and `full.py` (`lora_r=8` on query and value, dropout 0.05, no
///   clipping), `litgpt/model.py` (the output projection 128 tokens at a time), `litgpt/utils.py`
///   (`chunked_cross_entropy`).
/// - torchtune: `recipes/full_finetune_single_device.py`, `torchtune/modules/transformer.py` of 2024.
/// - torchtitan: `torchtitan/parallelisms/parallelize_llama.py` and `train_configs/llama3_8b.toml` of
///   December 2024.
/// - `fsdp_qlora`: the defaults of `train.py` (`lora_rank=64`, dropout 0.1, every projection but the
///   attention's output).
const TOOLS: [Tool; 6] = [
    Tool {
        names: &["fms-hf-tuning"],
        attention: Attention::Sdpa,
        losses: [Loss::Transformers4; 2],
        clips: true,
        adamw: Implementation::Foreach,
        lora: Lora {
            rank: 8,
            targets: &["query", "value"],
            dropout: 0.05,
            wide: true,
            nested: false,
        },
        sharding: Sharding::Fsdp1,
        splits_adapters: true,
        loads_narrow: true,
        unties: false,
        remark: "",
    },
    Tool {
        names: &["transformers", "HF Trainer"],
        attention: Attention::Eager,
        losses: [Loss::Transformers4; 2],
        clips: true,
        adamw: Implementation::Foreach,
        lora: NO_LORA,
        sharding: Sharding::Fsdp1,
        splits_adapters: false,
        loads_narrow: false,
        unties: false,
        remark: "",
    },
    Tool {
        names: &["litgpt"],
        attention: Attention::Sdpa,
        losses: [Loss::Narrow, Loss::Chunked],
        clips: false,
        adamw: Implementation::Foreach,
        lora: Lora {
            rank: 8,
            targets: &["query", "value"],
            dropout: 0.05,
            wide: false,
            nested: false,
        },
        sharding: Sharding::Fsdp1,
        splits_adapters: false,
        loads_narrow: false,
        unties: true,
        remark: "litgpt's own classes are simulated as those of transformers, one projection each for \
                 query, key and value",
    },
    Tool {
        names: &["torchtune"],
        attention: Attention::Sdpa,
        losses: [Loss::Transformers4; 2],
        clips: false,
        adamw: Implementation::Fused,
        lora: NO_LORA,
        sharding: Sharding::Fsdp2,
        splits_adapters: false,
        loads_narrow: false,
        unties: false,
        remark: "torchtune's own classes are simulated as those of transformers; blocks that wait for \
                 another stream are not counted",
    },
    Tool {
        names: &["torchtitan"],
        attention: Attention::Sdpa,
        losses: [Loss::Transformers5; 2],
        clips: true,
        adamw: Implementation::Foreach,
        lora: NO_LORA,
        sharding: Sharding::Fsdp2,
        splits_adapters: false,
        loads_narrow: false,
        unties: false,
        remark: "torchtitan's own classes are simulated as those of transformers",
    },
    Tool {
        names: &["fsdp_qlora"],
        attention: Attention::Sdpa,
        losses: [Loss::Transformers4; 2],
        clips: true,
        adamw: Implementation::Foreach,
        lora: Lora {
            rank: 64,
            targets: &["query", "key", "value", "mlp"],
            dropout: 0.1,
            wide: false,
            nested: true,
        },
        sharding: Sharding::Fsdp1,
        splits_adapters: true,
        loads_narrow: false,
        unties: false,
        remark: "",
    },
];

/// The tool of a row.
///
/// # Errors
///
/// There is none.
pub(super) fn tool(framework: &str) -> Result<&'static Tool, String> {
    let is = |tool: &&Tool| tool.names.iter().any(|name| framework.contains(name));
    TOOLS.iter().find(is).ok_or_else(|| format!("the stack \"{framework}\" is not simulated yet"))
}

impl Tool {
    /// How the loss is written.
    ///
    /// transformers moved from shifted logits to padded labels during 2025; releases of fms-hf-tuning
    /// from 3 on use that one.
    pub(super) fn loss(&self, run: &PublishedRun, adapted: bool) -> Loss {
        let [full, with_adapter] = self.losses;
        match number_after(&run.framework, "fms-hf-tuning") {
            Some(major) if 3 <= major => Loss::Transformers5,
            _ if run.other.contains("chunked CE") => Loss::Chunked,
            _ if adapted => with_adapter,
            _ => full,
        }
    }

    /// Options of `fully_shard`.
    pub(super) fn fsdp(&self, run: &PublishedRun) -> Fsdp {
        let mixed = self.sharding == Sharding::Fsdp2 || is_mixed(run);
        let accelerate = self.sharding == Sharding::Fsdp1 && mixed;
        let reduce = if accelerate { ReduceDtype::Bf16 } else { ReduceDtype::Fp32 };
        Fsdp {
            mixed_precision: mixed,
            reduce_dtype: mixed.then_some(reduce),
            no_sync: self.sharding == Sharding::Fsdp1,
            flat: self.sharding == Sharding::Fsdp1 && !self.splits_adapters,
            cpu_offload: run.other.to_lowercase().contains("cpu offload"),
            ..Fsdp::default()
        }
    }
}

fn is_mixed(run: &PublishedRun) -> bool {
    let precision = run.precision.as_deref().unwrap_or("").to_lowercase();
    precision.contains("mixed precision") && !is_quantised(&precision)
}
