//! How several GPUs share the work.

use leptos::prelude::*;
use simulator::wire::parallel::{DataParallel, ReduceDtype};
use simulator::wire::scenario::{Framework, Scenario};

use super::access::{Access, COUNT, MEBIBYTES};
use super::choice_field::{Name, SegmentField, SwitchField, place};
use super::number::{Boxed, NumberField};
use super::settle;
use super::shell::folded;
use crate::applies::replicas;
use crate::erased::{memo, part};
use crate::field::FieldName;
use crate::state::Choice;

const FRAMEWORK: Access<usize> = Access {
    field: FieldName::Framework,
    get: |scenario| place(&FRAMEWORKS, &scenario.stack.framework),
    set: |scenario: &mut Scenario, index| settle::set_framework(scenario, FRAMEWORKS[index]),
};

const FRAMEWORKS: [Framework; 2] = [Framework::Transformers, Framework::MegatronCore];

const FRAMEWORK_NAMES: [Name; 2] = [|_| "transformers", |_| "Megatron-core"];

const SHARING: Access<usize> = Access {
    field: FieldName::DataParallel,
    get: |scenario| match scenario.parallel.data {
        Some(data) => {
            sharings(scenario).iter().position(|other| *other == data).unwrap_or(usize::MAX)
        }
        // Several replicas that share nothing are a fault: no button is pressed.
        None if 1 < replicas(scenario) => usize::MAX,
        None => 1,
    },
    set: |scenario: &mut Scenario, index| {
        scenario.parallel.data = sharings(scenario).get(index).copied();
    },
};

/// What replicas can share; the second way is the usual one.
const fn sharings(scenario: &Scenario) -> [DataParallel; 2] {
    match scenario.stack.framework {
        Framework::Transformers => [DataParallel::Ddp, DataParallel::Fsdp2],
        Framework::MegatronCore => [DataParallel::Ddp, DataParallel::DistributedOptimizer],
    }
}

const SHARING_NAMES: [Name; 2] = [|_| "DDP", |_| "FSDP2"];

const MEGATRON_SHARING_NAMES: [Name; 2] = [|_| "DDP", |choices| choices.distributed_optimizer];

const TENSOR: Access<u64> = Access {
    field: FieldName::TensorParallel,
    get: |scenario| scenario.parallel.tensor,
    set: settle::set_tensor,
};

const SEQUENCE: Access<bool> = Access {
    field: FieldName::SequenceParallel,
    get: |scenario| scenario.parallel.sequence,
    set: |scenario: &mut Scenario, on| scenario.parallel.sequence = on,
};

const PIPELINE: Access<u64> = Access {
    field: FieldName::PipelineParallel,
    get: |scenario| scenario.parallel.pipeline,
    set: settle::set_pipeline,
};

const VIRTUAL_STAGES: Access<u64> = Access {
    field: FieldName::VirtualStages,
    get: |scenario| scenario.parallel.virtual_stages,
    set: |scenario: &mut Scenario, count| scenario.parallel.virtual_stages = count,
};

const CONTEXT: Access<u64> = Access {
    field: FieldName::ContextParallel,
    get: |scenario| scenario.parallel.context,
    set: settle::set_context,
};

const EXPERT: Access<u64> = Access {
    field: FieldName::ExpertParallel,
    get: |scenario| scenario.parallel.expert,
    set: |scenario: &mut Scenario, ranks| scenario.parallel.expert = ranks,
};

const RESHARD: Access<bool> = Access {
    field: FieldName::ReshardAfterForward,
    get: |scenario| scenario.parallel.fsdp.reshard_after_forward,
    set: |scenario: &mut Scenario, on| scenario.parallel.fsdp.reshard_after_forward = on,
};

const MIXED_PRECISION: Access<bool> = Access {
    field: FieldName::MixedPrecision,
    get: |scenario| scenario.parallel.fsdp.mixed_precision,
    set: |scenario: &mut Scenario, on| scenario.parallel.fsdp.mixed_precision = on,
};

const REDUCE_DTYPE: Access<usize> = Access {
    field: FieldName::ReduceDtype,
    get: |scenario| place(&REDUCE_DTYPES, &scenario.parallel.fsdp.reduce_dtype),
    set: |scenario: &mut Scenario, index| {
        scenario.parallel.fsdp.reduce_dtype = REDUCE_DTYPES[index];
    },
};

const REDUCE_DTYPES: [Option<ReduceDtype>; 3] =
    [None, Some(ReduceDtype::Fp32), Some(ReduceDtype::Bf16)];

const REDUCE_DTYPE_NAMES: [Name; 3] = [|choices| choices.reduce_own, |_| "fp32", |_| "bf16"];

const CPU_OFFLOAD: Access<bool> = Access {
    field: FieldName::CpuOffload,
    get: |scenario| scenario.parallel.fsdp.cpu_offload,
    set: |scenario: &mut Scenario, on| scenario.parallel.fsdp.cpu_offload = on,
};

const META_INIT: Access<bool> = Access {
    field: FieldName::MetaInit,
    get: |scenario| scenario.parallel.fsdp.meta_init,
    set: |scenario: &mut Scenario, on| scenario.parallel.fsdp.meta_init = on,
};

const BUCKET_VIEW: Access<bool> = Access {
    field: FieldName::BucketView,
    get: |scenario| scenario.parallel.ddp.bucket_view,
    set: |scenario: &mut Scenario, on| scenario.parallel.ddp.bucket_view = on,
};

const BUCKET_CAP: Access<u64> = Access {
    field: FieldName::BucketCap,
    get: |scenario| scenario.parallel.ddp.bucket_cap_mb,
    set: |scenario: &mut Scenario, size| scenario.parallel.ddp.bucket_cap_mb = size,
};

/// The layout over several GPUs.
#[component]
pub(super) fn ParallelFields() -> impl IntoView {
    let frameworks =
        || view! { <SegmentField access=FRAMEWORK names=&FRAMEWORK_NAMES /> }.into_any();
    let fsdp = || {
        view! {
            <SwitchField access=RESHARD />
            <SwitchField access=MIXED_PRECISION />
            <SegmentField access=REDUCE_DTYPE names=&REDUCE_DTYPE_NAMES />
            <SwitchField access=CPU_OFFLOAD />
        }
        .into_any()
    };
    let ddp = || view! { <SwitchField access=BUCKET_VIEW /> }.into_any();
    view! {
        {folded(FieldName::Framework, frameworks)}
        {folded(FieldName::TensorParallel, || number(TENSOR))}
        {folded(FieldName::SequenceParallel, || switch(SEQUENCE))}
        {folded(FieldName::PipelineParallel, || number(PIPELINE))}
        {folded(FieldName::VirtualStages, || number(VIRTUAL_STAGES))}
        {folded(FieldName::ContextParallel, || number(CONTEXT))}
        {folded(FieldName::ExpertParallel, || number(EXPERT))}
        {folded(FieldName::DataParallel, sharing)}
        {folded(FieldName::ReshardAfterForward, fsdp)}
        {folded(FieldName::BucketView, ddp)}
    }
}

fn number(access: Access<u64>) -> AnyView {
    view! { <NumberField boxed=Boxed::new(access, COUNT) /> }.into_any()
}

fn switch(access: Access<bool>) -> AnyView {
    view! { <SwitchField access /> }.into_any()
}

/// How replicas share: each framework has ways of its own.
fn sharing() -> AnyView {
    let choice = expect_context::<Choice>();
    let framework = memo(move || choice.scenario.with(|now| now.stack.framework));
    part(move || {
        let names = match framework.get() {
            Framework::Transformers => &SHARING_NAMES,
            Framework::MegatronCore => &MEGATRON_SHARING_NAMES,
        };
        view! { <SegmentField access=SHARING names /> }.into_any()
    })
    .into_any()
}

/// What few people need of it.
#[component]
pub(super) fn MoreParallelFields() -> impl IntoView {
    let cap = || view! { <NumberField boxed=Boxed::new(BUCKET_CAP, MEBIBYTES) /> }.into_any();
    let meta = || view! { <SwitchField access=META_INIT /> }.into_any();
    view! {
        {folded(FieldName::BucketCap, cap)}
        {folded(FieldName::MetaInit, meta)}
    }
}
