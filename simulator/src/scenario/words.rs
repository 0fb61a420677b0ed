//! The words of the format's choices, with what they mean.

use crate::wire::ModelKind;
use crate::wire::parallel::{DataParallel, ReduceDtype};
use crate::wire::scenario::{
    AdapterKind, Attention, BaseFormat, Checkpointing, Framework, Implementation, Loss,
    OptimizerName, Precision,
};

/// A choice that files write as a word.
pub trait Word: Copy + PartialEq + Sized + 'static {
    /// Every choice with its word, in the order shown to people.
    const WORDS: &'static [(&'static str, Self)];

    /// The word in files.
    fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(_, choice)| *choice == self);
        found.map_or("", |(word, _)| word)
    }
}

impl Word for ModelKind {
    const WORDS: &'static [(&'static str, Self)] = &[
        (Self::Llama.word(), Self::Llama),
        (Self::Qwen2.word(), Self::Qwen2),
        (Self::Qwen3.word(), Self::Qwen3),
        (Self::Qwen3Moe.word(), Self::Qwen3Moe),
        (Self::Qwen2Moe.word(), Self::Qwen2Moe),
        (Self::Mistral.word(), Self::Mistral),
        (Self::Mixtral.word(), Self::Mixtral),
        (Self::DeepseekV3.word(), Self::DeepseekV3),
        (Self::Gemma3Text.word(), Self::Gemma3Text),
        (Self::Gemma2.word(), Self::Gemma2),
        (Self::Phi3.word(), Self::Phi3),
        (Self::Gpt2.word(), Self::Gpt2),
        (Self::Falcon.word(), Self::Falcon),
        (Self::GptNeox.word(), Self::GptNeox),
        (Self::Phi.word(), Self::Phi),
        (Self::Opt.word(), Self::Opt),
        (Self::Bert.word(), Self::Bert),
        (Self::Roberta.word(), Self::Roberta),
        (Self::T5.word(), Self::T5),
        (Self::Vit.word(), Self::Vit),
        (Self::Torchvision.word(), Self::Torchvision),
        (Self::MegatronGpt.word(), Self::MegatronGpt),
    ];
}

impl Word for Precision {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("bf16", Self::Bf16),
        ("fp16", Self::Fp16),
        ("amp_bf16", Self::AmpBf16),
        ("amp_fp16", Self::AmpFp16),
        ("fp32", Self::Fp32),
    ];
}

impl Word for OptimizerName {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("adamw", Self::Adamw),
        ("sgd", Self::Sgd),
        ("adafactor", Self::Adafactor),
        ("rmsprop", Self::Rmsprop),
        ("lion", Self::Lion),
        ("muon", Self::Muon),
        ("adamw8bit", Self::Adamw8bit),
    ];
}

impl Word for Implementation {
    const WORDS: &'static [(&'static str, Self)] =
        &[("foreach", Self::Foreach), ("fused", Self::Fused), ("loop", Self::Loop)];
}

impl Word for Checkpointing {
    const WORDS: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("full", Self::Full), ("selective", Self::Selective)];
}

impl Word for AdapterKind {
    const WORDS: &'static [(&'static str, Self)] = &[("lora", Self::Lora)];
}

impl Word for DataParallel {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("ddp", Self::Ddp),
        ("fsdp2", Self::Fsdp2),
        ("distributed_optimizer", Self::DistributedOptimizer),
        ("zero1", Self::Zero1),
        ("zero2", Self::Zero2),
        ("zero3", Self::Zero3),
    ];
}

impl Word for ReduceDtype {
    const WORDS: &'static [(&'static str, Self)] = &[("fp32", Self::Fp32), ("bf16", Self::Bf16)];
}

impl Word for Attention {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("sdpa", Self::Sdpa),
        ("eager", Self::Eager),
        ("flash_attention_2", Self::FlashAttention2),
        ("flash_attention_3", Self::FlashAttention3),
    ];
}

impl Word for Framework {
    const WORDS: &'static [(&'static str, Self)] =
        &[("transformers", Self::Transformers), ("megatron_core", Self::MegatronCore)];
}

impl Word for Loss {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("transformers5", Self::Transformers5),
        ("transformers4", Self::Transformers4),
        ("fused_linear", Self::FusedLinear),
        ("chunked", Self::Chunked),
        ("narrow", Self::Narrow),
    ];
}

impl Word for BaseFormat {
    const WORDS: &'static [(&'static str, Self)] =
        &[("whole", Self::Whole), ("nf4", Self::Nf4), ("nf4_double", Self::Nf4Double)];
}

#[cfg(test)]
mod tests {
    use core::fmt::Debug;

    use serde::Serialize;

    use super::*;

    #[test]
    fn words_are_those_that_serde_writes() {
        fn check<T: Word + Serialize + Debug>() {
            for (word, choice) in T::WORDS {
                assert_eq!(serde_json::to_value(choice).unwrap(), *word, "{choice:?}");
                assert_eq!(Word::word(*choice), *word);
            }
        }
        check::<ModelKind>();
        check::<Precision>();
        check::<OptimizerName>();
        check::<Implementation>();
        check::<Checkpointing>();
        check::<AdapterKind>();
        check::<DataParallel>();
        check::<ReduceDtype>();
        check::<Attention>();
        check::<Framework>();
        check::<Loss>();
    }
}
