//! Workload, number formats, optimizer, checkpointing and the software around them.

use leptos::prelude::*;
use simulator::wire::scenario::{
    Attention, Checkpointing, Framework, Implementation, Loss, OptimizerName, Precision, Scenario,
};

use super::More;
use super::access::{Access, COUNT, COUNT_OR_NONE, OPTIONAL_DECIMAL, TEXT};
use super::alloc_conf;
use super::choice_field::{Name, SegmentField, SelectField, SwitchField, place};
use super::number::{Boxed, NumberField, SliderField};
use super::scale::Scale;
use super::shell::folded;
use crate::erased::{derived, memo, part};
use crate::field::FieldName;
use crate::state::{Choice, Settings};

const MICRO_BATCH: Access<u64> = Access {
    field: FieldName::MicroBatch,
    get: |scenario| scenario.workload.micro_batch,
    set: |scenario: &mut Scenario, count| scenario.workload.micro_batch = count,
};

const SEQ_LEN: Access<u64> = Access {
    field: FieldName::SeqLen,
    get: |scenario| scenario.workload.seq_len,
    set: |scenario: &mut Scenario, tokens| scenario.workload.seq_len = tokens,
};

const TARGET_LEN: Access<u64> = Access {
    field: FieldName::TargetLen,
    get: |scenario| scenario.workload.target_len,
    set: |scenario: &mut Scenario, tokens| scenario.workload.target_len = tokens,
};

const GRAD_ACCUM: Access<u64> = Access {
    field: FieldName::GradAccum,
    get: |scenario| scenario.workload.grad_accum,
    set: |scenario: &mut Scenario, count| scenario.workload.grad_accum = count,
};

/// How much at once.
#[component]
pub(super) fn WorkloadFields() -> impl IntoView {
    let batch = StoredValue::new(Scale::octaves(1, 256, 1));
    let steps = StoredValue::new(Scale::octaves(1, 128, 1));
    let seq_len = || {
        let tokens = StoredValue::new(Scale::octaves(128, 131_072, 64));
        let scale = derived(move || tokens.get_value());
        view! { <SliderField access=SEQ_LEN notation=COUNT scale /> }.into_any()
    };
    let target_len = || {
        let placeholder = expect_context::<Settings>().word(|w| w.form.as_the_input);
        view! { <NumberField boxed=Boxed::new(TARGET_LEN, COUNT_OR_NONE) placeholder /> }.into_any()
    };
    view! {
        <SliderField access=MICRO_BATCH notation=COUNT scale=derived(move || batch.get_value()) />
        {folded(FieldName::SeqLen, seq_len)}
        {folded(FieldName::TargetLen, target_len)}
        <SliderField access=GRAD_ACCUM notation=COUNT scale=derived(move || steps.get_value()) />
    }
}

const PRECISION: Access<usize> = Access {
    field: FieldName::Precision,
    get: |scenario| place(&PRECISIONS, &scenario.precision),
    set: |scenario: &mut Scenario, index| scenario.precision = PRECISIONS[index],
};

const PRECISIONS: [Precision; 4] =
    [Precision::Bf16, Precision::AmpBf16, Precision::AmpFp16, Precision::Fp32];

const PRECISION_NAMES: [Name; 4] = [
    |choices| choices.bf16,
    |choices| choices.amp_bf16,
    |choices| choices.amp_fp16,
    |choices| choices.fp32,
];

const TF32: Access<bool> = Access {
    field: FieldName::Tf32,
    get: |scenario| scenario.stack.tf32,
    set: |scenario: &mut Scenario, on| scenario.stack.tf32 = on,
};

/// In which number format.
#[component]
pub(super) fn PrecisionFields() -> impl IntoView {
    let tf32 = || view! { <SwitchField access=TF32 /> }.into_any();
    view! {
        <SelectField access=PRECISION names=&PRECISION_NAMES />
        {folded(FieldName::Tf32, tf32)}
    }
}

const OPTIMIZER: Access<usize> = Access {
    field: FieldName::Optimizer,
    get: |scenario| place(&OPTIMIZERS, &scenario.optimizer.name),
    set: |scenario: &mut Scenario, index| {
        let (name, optimizer) = (OPTIMIZERS[index], &mut scenario.optimizer);
        optimizer.name = name;
        optimizer.centered &= name == OptimizerName::Rmsprop;
        if !name.has_momentum() {
            optimizer.momentum = None;
        }
        if !name.implementations().contains(&optimizer.implementation) {
            optimizer.implementation = name.implementations()[0];
        }
    },
};

const OPTIMIZERS: [OptimizerName; 7] = [
    OptimizerName::Adamw,
    OptimizerName::Sgd,
    OptimizerName::Adafactor,
    OptimizerName::Rmsprop,
    OptimizerName::Lion,
    OptimizerName::Muon,
    OptimizerName::Adamw8bit,
];

const OPTIMIZER_NAMES: [Name; 7] = [
    |_| "AdamW",
    |_| "SGD",
    |_| "Adafactor",
    |_| "RMSprop",
    |_| "Lion",
    |_| "Muon",
    |_| "AdamW 8-bit",
];

const IMPLEMENTATION: Access<usize> = Access {
    field: FieldName::Implementation,
    get: |scenario| place(&IMPLEMENTATIONS, &scenario.optimizer.implementation),
    set: |scenario: &mut Scenario, index| {
        scenario.optimizer.implementation = IMPLEMENTATIONS[index];
    },
};

const IMPLEMENTATIONS: [Implementation; 3] =
    [Implementation::Foreach, Implementation::Fused, Implementation::Loop];

const IMPLEMENTATION_NAMES: [Name; 3] =
    [|choices| choices.foreach, |choices| choices.fused, |choices| choices.looped];

const MOMENTUM: Access<Option<f64>> = Access {
    field: FieldName::Momentum,
    get: |scenario| scenario.optimizer.momentum,
    set: |scenario: &mut Scenario, momentum| scenario.optimizer.momentum = momentum,
};

const CENTERED: Access<bool> = Access {
    field: FieldName::Centered,
    get: |scenario| scenario.optimizer.centered,
    set: |scenario: &mut Scenario, on| scenario.optimizer.centered = on,
};

const CLIP: Access<bool> = Access {
    field: FieldName::ClipGradNorm,
    get: |scenario| scenario.optimizer.clip_grad_norm,
    set: |scenario: &mut Scenario, on| scenario.optimizer.clip_grad_norm = on,
};

const SET_TO_NONE: Access<bool> = Access {
    field: FieldName::SetToNone,
    get: |scenario| scenario.optimizer.set_to_none,
    set: |scenario: &mut Scenario, on| scenario.optimizer.set_to_none = on,
};

const IN_BACKWARD: Access<bool> = Access {
    field: FieldName::InBackward,
    get: |scenario| scenario.optimizer.in_backward,
    set: |scenario: &mut Scenario, on| scenario.optimizer.in_backward = on,
};

/// The optimizer.
#[component]
pub(super) fn OptimizerFields() -> impl IntoView {
    let momentum = || {
        let placeholder = expect_context::<Settings>().word(|w| w.form.momentum_none);
        view! { <NumberField boxed=Boxed::new(MOMENTUM, OPTIONAL_DECIMAL) placeholder /> }
            .into_any()
    };
    let centered = || view! { <SwitchField access=CENTERED /> }.into_any();
    view! {
        <SegmentField access=OPTIMIZER names=&OPTIMIZER_NAMES />
        <SegmentField access=IMPLEMENTATION names=&IMPLEMENTATION_NAMES />
        {folded(FieldName::Momentum, momentum)}
        {folded(FieldName::Centered, centered)}
        <SwitchField access=CLIP />
        <More>
            <SwitchField access=SET_TO_NONE />
            <SwitchField access=IN_BACKWARD />
        </More>
    }
}

const CHECKPOINTING: Access<usize> = Access {
    field: FieldName::Checkpointing,
    get: |scenario| place(&CHECKPOINTINGS, &scenario.checkpointing),
    set: |scenario: &mut Scenario, index| scenario.checkpointing = CHECKPOINTINGS[index],
};

const CHECKPOINTINGS: [Checkpointing; 3] =
    [Checkpointing::None, Checkpointing::Full, Checkpointing::Selective];

/// The last is Megatron-core's alone.
const CHECKPOINTING_NAMES: [Name; 3] = [
    |choices| choices.checkpoint_none,
    |choices| choices.checkpoint_full,
    |choices| choices.checkpoint_selective,
];

/// What is computed twice to save memory.
#[component]
pub(super) fn SavingsFields() -> impl IntoView {
    let choice = expect_context::<Choice>();
    let with_selective = memo(move || {
        choice.scenario.with(|now| {
            now.stack.framework == Framework::MegatronCore
                || now.checkpointing == Checkpointing::Selective
        })
    });
    part(move || {
        let names: &'static [Name] = &CHECKPOINTING_NAMES;
        let names = if with_selective.get() { names } else { &names[..2] };
        view! { <SegmentField access=CHECKPOINTING names /> }.into_any()
    })
}

const ATTENTION: Access<usize> = Access {
    field: FieldName::Attention,
    get: |scenario| place(&ATTENTIONS, &scenario.stack.attention),
    set: |scenario: &mut Scenario, index| scenario.stack.attention = ATTENTIONS[index],
};

const ATTENTIONS: [Attention; 4] =
    [Attention::Sdpa, Attention::Eager, Attention::FlashAttention2, Attention::FlashAttention3];

const ATTENTION_NAMES: [Name; 4] = [
    |choices| choices.sdpa,
    |choices| choices.eager,
    |_| "FlashAttention 2",
    |_| "FlashAttention 3",
];

const LOSS: Access<usize> = Access {
    field: FieldName::Loss,
    get: |scenario| place(&LOSSES, &scenario.stack.loss),
    set: |scenario: &mut Scenario, index| scenario.stack.loss = LOSSES[index],
};

const LOSSES: [Loss; 3] = [Loss::Transformers5, Loss::Transformers4, Loss::FusedLinear];

const LOSS_NAMES: [Name; 3] =
    [|choices| choices.loss_5, |choices| choices.loss_4, |choices| choices.loss_fused];

const CHANNELS_LAST: Access<bool> = Access {
    field: FieldName::ChannelsLast,
    get: |scenario| scenario.stack.channels_last,
    set: |scenario: &mut Scenario, on| scenario.stack.channels_last = on,
};

const COMPILE: Access<bool> = Access {
    field: FieldName::Compile,
    get: |scenario| scenario.stack.compile,
    set: |scenario: &mut Scenario, on| scenario.stack.compile = on,
};

const ACTIVATION_OFFLOAD: Access<bool> = Access {
    field: FieldName::ActivationOffload,
    get: |scenario| scenario.stack.activation_offload,
    set: |scenario: &mut Scenario, on| scenario.stack.activation_offload = on,
};

const EXPANDABLE: Access<bool> = Access {
    field: FieldName::ExpandableSegments,
    get: |scenario| {
        let value = alloc_conf::get(&scenario.stack.alloc_conf, "expandable_segments");
        value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
    },
    set: |scenario: &mut Scenario, on| {
        let text = &mut scenario.stack.alloc_conf;
        *text = alloc_conf::set(text, "expandable_segments", on.then_some("True"));
    },
};

const ALLOC_CONF: Access<String> = Access {
    field: FieldName::AllocConf,
    get: |scenario| scenario.stack.alloc_conf.clone(),
    set: |scenario: &mut Scenario, text| scenario.stack.alloc_conf = text,
};

/// How attention and loss are written, and the allocator's settings.
#[component]
pub(super) fn StackFields() -> impl IntoView {
    let attention = || view! { <SelectField access=ATTENTION names=&ATTENTION_NAMES /> }.into_any();
    let loss = || view! { <SelectField access=LOSS names=&LOSS_NAMES /> }.into_any();
    let compile = || view! { <SwitchField access=COMPILE /> }.into_any();
    let offload = || view! { <SwitchField access=ACTIVATION_OFFLOAD /> }.into_any();
    let channels_last = || view! { <SwitchField access=CHANNELS_LAST /> }.into_any();
    view! {
        {folded(FieldName::Attention, attention)}
        {folded(FieldName::Loss, loss)}
        {folded(FieldName::Compile, compile)}
        {folded(FieldName::ActivationOffload, offload)}
        {folded(FieldName::ChannelsLast, channels_last)}
        <SwitchField access=EXPANDABLE />
        <More><NumberField
                boxed=Boxed::new(ALLOC_CONF, TEXT)
                placeholder=Signal::stored("max_split_size_mb:128")
            /></More>
    }
}
