//! The form: nothing but choices. Every change is answered at once; nothing is ever refused here.

mod access;
mod adapter;
mod alloc_conf;
mod choice_field;
mod hardware;
mod import;
mod model;
mod model_shape;
mod number;
mod parallel;
mod presets;
mod scale;
pub(crate) mod search;
mod settle;
mod shell;
mod training;

use leptos::prelude::*;
use simulator::wire::scenario::Model;

pub(crate) use import::{Import, listen_for_drops};

use crate::engine::Rules;
use crate::erased::{derived, memo, when};
use crate::field::{FieldName, FieldsetName};
use crate::state::{Choice, Settings};

/// The whole form.
#[component]
pub(crate) fn ScenarioForm() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let adapter = || {
        view! { <Fieldset name=FieldsetName::Adapter><adapter::AdapterFields /></Fieldset> }
            .into_any()
    };
    let savings = || {
        view! { <Fieldset name=FieldsetName::Savings><training::SavingsFields /></Fieldset> }
            .into_any()
    };
    view! {
        <div id="inputs" class="form" role="form" aria-label=settings.word(|w| w.form.title)>
            <div class="form-top">
                <search::FieldSearch />
                <presets::PresetPicker />
            </div>
            <Fieldset name=FieldsetName::Model><model::ModelFields /></Fieldset>
            <Fieldset name=FieldsetName::Hardware><hardware::HardwareFields /></Fieldset>
            <Fieldset name=FieldsetName::Workload><training::WorkloadFields /></Fieldset>
            <Fieldset name=FieldsetName::Precision><training::PrecisionFields /></Fieldset>
            {shell::folded(FieldName::Adapter, adapter)}
            <Fieldset name=FieldsetName::Optimizer><training::OptimizerFields /></Fieldset>
            {shell::folded(FieldName::Checkpointing, savings)}
            <Fieldset name=FieldsetName::Stack><training::StackFields /></Fieldset>
            <OtherFaults />
        </div>
    }
}

#[component]
fn Fieldset(name: FieldsetName, children: Children) -> impl IntoView {
    let settings = expect_context::<Settings>();
    view! {
        <fieldset>
            <legend>{derived(move || (settings.words().fieldset)(name))}</legend>
            {children()}
        </fieldset>
    }
}

/// Settings that few people need, folded.
#[component]
fn More(children: Children) -> impl IntoView {
    let settings = expect_context::<Settings>();
    view! {
        <details class="more">
            <summary>{settings.word(|w| w.form.more)}</summary>
            <div class="more-fields">{children()}</div>
        </details>
    }
}

/// Faults of fields that the form does not show.
#[component]
fn OtherFaults() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let choice = expect_context::<Choice>();
    let keys = memo(move || {
        choice.scenario.with(|scenario| match &scenario.model {
            Model::Inline { kind, .. } => model_shape::keys(*kind),
            Model::Catalog { .. } => &[],
        })
    });
    let faults = Rules::here().homeless(keys);
    let list = move || {
        view! {
            <section class="other-faults">
                <h3>{settings.word(|w| w.form.other_faults)}</h3>
                <shell::FaultList faults with_path=true />
            </section>
        }
        .into_any()
    };
    when(move || faults.with(|faults| !faults.is_empty()), list)
}
