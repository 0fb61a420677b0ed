//! Which GPU, how many, and what else lives on it.

use leptos::prelude::*;
use simulator::wire::GpuProfile;
use simulator::wire::scenario::Scenario;

use super::More;
use super::access::{Access, COUNT, OPTIONAL_SIZE, SIZE};
use super::number::{Boxed, NumberField, SliderField};
use super::parallel::{MoreParallelFields, ParallelFields};
use super::scale::Scale;
use super::settle;
use super::shell::FieldShell;
use crate::engine::{Rules, catalog};
use crate::erased::{derived, flag, invalid, part, text};
use crate::field::FieldName;
use crate::format;
use crate::state::{Choice, Settings};

const GPU: Access<String> = Access {
    field: FieldName::Gpu,
    get: |scenario| scenario.hardware.gpu.clone(),
    set: |scenario: &mut Scenario, gpu| scenario.hardware.gpu = gpu,
};

const COUNT_OF_GPUS: Access<u64> = Access {
    field: FieldName::Count,
    get: |scenario| scenario.hardware.count,
    set: settle::set_count,
};

const ALREADY_USED: Access<u64> = Access {
    field: FieldName::AlreadyUsed,
    get: |scenario| scenario.hardware.already_used_bytes,
    set: |scenario: &mut Scenario, bytes| scenario.hardware.already_used_bytes = bytes,
};

const PROCESS_CAP: Access<Option<u64>> = Access {
    field: FieldName::ProcessCap,
    get: |scenario| scenario.hardware.process_cap_bytes,
    set: |scenario: &mut Scenario, bytes| scenario.hardware.process_cap_bytes = bytes,
};

/// The hardware's fields.
#[component]
pub(super) fn HardwareFields() -> impl IntoView {
    let choice = expect_context::<Choice>();
    let settings = expect_context::<Settings>();
    // Up to the card's memory, in quarters of a GiB.
    let scale = derived(move || {
        let gpu = choice.scenario.with(|scenario| profile(&scenario.hardware.gpu));
        let most = gpu.map_or(80 << 30, |gpu| gpu.usable_mib << 20);
        Scale::steps(most, 1 << 28)
    });
    view! {
        <GpuField />
        <NumberField boxed=Boxed::new(COUNT_OF_GPUS, COUNT) />
        <ParallelFields />
        <More>
            <MoreParallelFields />
            <SliderField access=ALREADY_USED notation=SIZE scale />
            <NumberField
                boxed=Boxed::new(PROCESS_CAP, OPTIONAL_SIZE)
                placeholder=settings.word(|w| w.form.optional)
            />
        </More>
    }
}

fn profile(id: &str) -> Option<&'static GpuProfile> {
    catalog().gpus.iter().find(|gpu| gpu.id == id)
}

#[component]
fn GpuField() -> impl IntoView {
    let choice = expect_context::<Choice>();
    let value = GPU.value();
    let faults = Rules::here().faults_at(FieldName::Gpu);
    let mut vendors: Vec<&'static str> = Vec::new();
    for gpu in &catalog().gpus {
        if !vendors.contains(&gpu.vendor.as_str()) {
            vendors.push(&gpu.vendor);
        }
    }
    let pick = move |event: web_sys::Event| {
        let gpu = event_target_value(&event);
        choice.set(|scenario| scenario.hardware.gpu = gpu);
    };
    // The id from a link or file that the catalog does not have, so that the list shows what is asked.
    let unknown = part(move || {
        let id = value.get();
        if profile(&id).is_some() {
            return ().into_any();
        }
        view! { <option value=id.clone() selected>{id.clone()}</option> }.into_any()
    });
    view! {
        <FieldShell field=FieldName::Gpu reset=GPU.reset()>
            <select
                id=FieldName::Gpu.id()
                on:change=pick
                aria-invalid=invalid(move || faults.with(|f| !f.is_empty()))
            >
                {unknown}
                {vendors.into_iter().map(|vendor| group(vendor, value)).collect::<Vec<_>>()}
            </select>
        </FieldShell>
    }
}

/// The GPUs of one maker, each with its memory.
fn group(vendor: &'static str, value: Memo<String>) -> AnyView {
    let settings = expect_context::<Settings>();
    let gpus = catalog().gpus.iter().filter(move |gpu| gpu.vendor == vendor);
    let options: Vec<AnyView> = gpus
        .map(|gpu| {
            let text = text(move || {
                format!("{} · {}", gpu.name, format::size(gpu.usable_mib << 20, settings.unit()))
            });
            let is_chosen = flag(move || value.with(|id| *id == gpu.id));
            view! { <option value=gpu.id.as_str() prop:selected=is_chosen>{text}</option> }
                .into_any()
        })
        .collect();
    view! { <optgroup label=vendor>{options}</optgroup> }.into_any()
}
