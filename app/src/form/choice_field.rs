//! Fields that hold one of a few words: buttons in a row where they are short, else a list.
//!
//! The value is the word's place among its alternatives.

use leptos::prelude::*;

use super::access::Access;
use super::shell::{FaultList, FieldShell, ResetDot};
use crate::engine::Rules;
use crate::erased::{derived, flag, invalid};
use crate::state::{Choice, Settings};
use crate::words::Choices;

/// The name of an alternative.
pub(super) type Name = fn(&Choices) -> &'static str;

/// The place of a word among its alternatives.
pub(super) fn place<T: PartialEq>(words: &[T], word: &T) -> usize {
    words.iter().position(|other| other == word).unwrap_or(0)
}

fn name_of(name: Name, settings: Settings) -> Signal<&'static str> {
    derived(move || name(&settings.words().form.choices))
}

/// A row of buttons, as a radio group.
#[component]
pub(super) fn SegmentField(access: Access<usize>, names: &'static [Name]) -> impl IntoView {
    let choice = expect_context::<Choice>();
    let settings = expect_context::<Settings>();
    let value = access.value();
    let field = access.field;
    let button = move |(index, name): (usize, &'static Name)| {
        // The search for a setting goes to the first one.
        let id = if index == 0 { field.id().to_owned() } else { format!("{}-{index}", field.id()) };
        let pick = move |_| choice.set(|scenario| (access.set)(scenario, index));
        view! {
            <label class="segment">
                <input
                    type="radio"
                    id=id
                    name=field.id()
                    prop:checked=flag(move || value.get() == index)
                    on:change=pick
                />
                <span>{name_of(*name, settings)}</span>
            </label>
        }
        .into_any()
    };
    let buttons: Vec<AnyView> = names.iter().enumerate().map(button).collect();
    view! {
        <FieldShell field reset=access.reset() is_group=true>
            <div class="segments" role="radiogroup" aria-label=settings.label(field)>{buttons}</div>
        </FieldShell>
    }
}

/// A list to pick from.
#[component]
pub(super) fn SelectField(access: Access<usize>, names: &'static [Name]) -> impl IntoView {
    let choice = expect_context::<Choice>();
    let settings = expect_context::<Settings>();
    let value = access.value();
    let field = access.field;
    let pick = move |event: web_sys::Event| {
        if let Ok(index) = event_target_value(&event).parse() {
            choice.set(|scenario| (access.set)(scenario, index));
        }
    };
    let option = move |(index, name): (usize, &'static Name)| {
        let is_chosen = flag(move || value.get() == index);
        view! {
            <option value=index.to_string() prop:selected=is_chosen>{name_of(*name, settings)}</option>
        }
        .into_any()
    };
    let options: Vec<AnyView> = names.iter().enumerate().map(option).collect();
    let faults = Rules::here().faults_at(field);
    let is_invalid = invalid(move || faults.with(|faults| !faults.is_empty()));
    view! {
        <FieldShell field reset=access.reset()>
            <select id=field.id() on:change=pick aria-invalid=is_invalid>{options}</select>
        </FieldShell>
    }
}

/// A switch.
#[component]
pub(super) fn SwitchField(access: Access<bool>) -> impl IntoView {
    let choice = expect_context::<Choice>();
    let settings = expect_context::<Settings>();
    let value = access.value();
    let field = access.field;
    let reset = access.reset();
    let label = settings.label(field);
    let flip = move |event: web_sys::Event| {
        let on = event_target_checked(&event);
        choice.set(|scenario| (access.set)(scenario, on));
    };
    view! {
        <div class="field switch-field" class:changed=reset.changed>
            <label class="switch" title=settings.help(field)>
                <input
                    type="checkbox"
                    role="switch"
                    id=field.id()
                    prop:checked=flag(move || value.get())
                    on:change=flip
                />
                <span>{label}</span>
            </label>
            <ResetDot reset label />
            <FaultList faults=Rules::here().faults_at(field) />
        </div>
    }
}
