//! Small trainable parts beside a frozen model.

use leptos::prelude::*;
use simulator::wire::scenario::Scenario;

use super::access::{Access, COUNT, OPTIONAL_DECIMAL};
use super::choice_field::SwitchField;
use super::number::{Boxed, NumberField, SliderField};
use super::scale::Scale;
use super::settle;
use super::shell::{FieldShell, folded};
use crate::engine::Rules;
use crate::erased::{derived, flag, memo, part};
use crate::field::FieldName;
use crate::state::{Choice, Settings};

const LORA: Access<bool> = Access {
    field: FieldName::Adapter,
    get: |scenario| scenario.adapter.is_some(),
    set: settle::set_adapter,
};

const RANK: Access<u64> = Access {
    field: FieldName::AdapterRank,
    get: |scenario| scenario.adapter.as_ref().map_or(settle::USUAL_RANK, |adapter| adapter.rank),
    set: |scenario: &mut Scenario, rank| {
        if let Some(adapter) = &mut scenario.adapter {
            adapter.rank = rank;
        }
    },
};

/// One name a line.
const TARGETS: Access<String> = Access {
    field: FieldName::AdapterTargets,
    get: |scenario| settle::targets(scenario).join("\n"),
    set: |scenario: &mut Scenario, names| {
        if let Some(adapter) = &mut scenario.adapter {
            adapter.targets = names.lines().map(str::to_owned).collect();
        }
    },
};

const DROPOUT: Access<Option<f64>> = Access {
    field: FieldName::AdapterDropout,
    get: |scenario| {
        let dropout = scenario.adapter.as_ref().map(|adapter| adapter.dropout);
        dropout.filter(|share| *share != 0.0)
    },
    set: |scenario: &mut Scenario, dropout| {
        if let Some(adapter) = &mut scenario.adapter {
            adapter.dropout = dropout.unwrap_or(0.0);
        }
    },
};

/// The adapter: a switch, and what it then needs.
#[component]
pub(super) fn AdapterFields() -> impl IntoView {
    let details = || {
        let scale = StoredValue::new(Scale::octaves(1, 256, 1));
        let settings = expect_context::<Settings>();
        let placeholder = settings.word(|w| w.form.momentum_none);
        view! {
            <SliderField access=RANK notation=COUNT scale=derived(move || scale.get_value()) />
            <TargetsField />
            <NumberField boxed=Boxed::new(DROPOUT, OPTIONAL_DECIMAL) placeholder />
        }
        .into_any()
    };
    view! {
        <SwitchField access=LORA />
        {folded(FieldName::AdapterRank, details)}
    }
}

/// The model's modules to pick from, and whatever else the scenario names.
#[component]
fn TargetsField() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let rules = Rules::here();
    let field = FieldName::AdapterTargets;
    let chosen = TARGETS.value();
    // One name a line as well.
    let names = memo(move || {
        let mut names = rules.projections().join("\n");
        chosen.with(|chosen| {
            for name in chosen.lines() {
                if names.lines().all(|other| other != name) {
                    names.push('\n');
                    names.push_str(name);
                }
            }
        });
        names
    });
    let boxes = part(move || {
        let names = names.get();
        let boxes = names.lines().filter(|name| !name.is_empty()).enumerate();
        boxes.map(|target| target_box(target, chosen)).collect::<Vec<AnyView>>().into_any()
    });
    view! {
        <FieldShell field reset=TARGETS.reset() is_group=true>
            <div class="targets" role="group" aria-label=settings.label(field)>{boxes}</div>
        </FieldShell>
    }
}

fn target_box((index, name): (usize, &str), chosen: Memo<String>) -> AnyView {
    let choice = expect_context::<Choice>();
    let field = FieldName::AdapterTargets;
    // The search for a setting goes to the first one.
    let id = if index == 0 { field.id().to_owned() } else { format!("{}-{index}", field.id()) };
    let [wanted, shown, name] = [name; 3].map(str::to_owned);
    let is_chosen = flag(move || chosen.with(|chosen| chosen.lines().any(|name| name == wanted)));
    let flip = move |event: web_sys::Event| {
        let on = event_target_checked(&event);
        choice.set(|scenario| settle::set_target(scenario, &name, on));
    };
    view! {
        <label class="target">
            <input type="checkbox" id=id prop:checked=is_chosen on:change=flip />
            <code>{shown}</code>
        </label>
    }
    .into_any()
}
