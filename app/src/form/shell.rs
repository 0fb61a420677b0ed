//! What every field has around its control: label, reset dot, faults with their mends, notes.

use leptos::prelude::*;
use simulator::wire::{Fault, Mend, Note};

use super::settle;
use crate::edit;
use crate::engine::Rules;
use crate::erased::{Part, part, text, when};
use crate::field::FieldName;
use crate::state::{Choice, Settings};

/// Mends that are offered for one fault.
const MOST_MENDS: usize = 6;

/// Whether a field differs from what the user started from, and the way back.
#[derive(Clone, Copy)]
pub(super) struct Reset {
    pub changed: Signal<bool>,
    pub back: Callback<()>,
}

/// A field's frame. The control inside carries `field.id()`.
#[component]
pub(super) fn FieldShell(
    field: FieldName,
    reset: Reset,
    /// A unit behind the label; empty for none.
    #[prop(optional)]
    unit: Signal<&'static str>,
    /// Whether the field is a group of choices: its caption then stands for none of them.
    #[prop(optional)]
    is_group: bool,
    children: Children,
) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let label = settings.label(field);
    view! {
        <div class="field" class:changed=reset.changed>
            <div class="field-head">
                <label for=(!is_group).then(|| field.id()) title=settings.help(field)>{label}</label>
                <span class="unit">{unit}</span>
                <ResetDot reset label />
            </div>
            {children()}
            <FaultList faults=Rules::here().faults_at(field) />
            <Remarks field />
        </div>
    }
}

/// Fields that are there while the first of them means something.
pub(super) fn folded(field: FieldName, build: fn() -> AnyView) -> Part {
    let rules = Rules::here();
    when(move || rules.applies(field), build)
}

/// The dot that goes back to where the user started; there only when something changed.
#[component]
pub(super) fn ResetDot(reset: Reset, label: Signal<&'static str>) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let title = text(move || format!("{}: {}", settings.words().form.reset, label.get()));
    let click = move |_| reset.back.run(());
    when(
        move || reset.changed.get(),
        move || {
            view! {
                <button type="button" class="reset-dot" title=title aria-label=title on:click=click>
                </button>
            }
            .into_any()
        },
    )
}

/// Faults, each with the values that would mend it.
#[component]
pub(super) fn FaultList(
    faults: Signal<Vec<Fault>>,
    /// Whether the paths are shown, because no field says where a fault is.
    #[prop(optional)]
    with_path: bool,
) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let choice = expect_context::<Choice>();
    let row = move |fault: Fault| {
        let text = (settings.words().fault)(&fault);
        let mends: Vec<AnyView> = fault
            .mends
            .into_iter()
            .take(if with_path { 0 } else { MOST_MENDS })
            .map(|mend| mend_button(mend, &fault.path, settings, choice))
            .collect();
        // What is wrong in a file is mended in the file: its mends would change the plan instead.
        let path = if with_path && !fault.path.is_empty() {
            view! { <code class="fault-path">{fault.path}</code>": " }.into_any()
        } else {
            ().into_any()
        };
        view! { <li>{path}<span>{text}</span>{mends}</li> }.into_any()
    };
    part(move || {
        let rows: Vec<AnyView> = faults.get().into_iter().map(row).collect();
        if rows.is_empty() {
            return ().into_any();
        }
        view! { <div role="alert"><ul class="faults">{rows}</ul></div> }.into_any()
    })
}

fn mend_button(mend: Mend, at: &str, settings: Settings, choice: Choice) -> AnyView {
    let words = settings.words();
    // What is set is said where it is another field than the one at fault.
    let other = FieldName::ALL.into_iter().find(|field| mend.path != at && field.owns(&mend.path));
    let off = mend.value.is_null();
    let value = if off { words.form.mend_off.to_owned() } else { edit::shown(&mend) };
    let label = match other {
        Some(field) => (words.form.mend_of)((words.field)(field).label, &value),
        None if off => value,
        None => (words.form.mend)(&value),
    };
    let click = move |_| {
        let mended = choice.scenario.with_untracked(|scenario| edit::apply(scenario, &mend));
        if let Some(mut mended) = mended {
            settle::after_mend(&mut mended, &mend.path);
            choice.set(|scenario| *scenario = mended);
        }
    };
    view! { <button type="button" class="mend" on:click=click>{label}</button> }.into_any()
}

/// What a reader should know about a field although nothing is wrong.
#[component]
fn Remarks(field: FieldName) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let notes = Rules::here().notes_at(field);
    let row = move |note: Note| {
        let text = (settings.words().note)(&note);
        view! { <li>{text}</li> }.into_any()
    };
    part(move || {
        let rows: Vec<AnyView> = notes.get().into_iter().map(row).collect();
        if rows.is_empty() {
            return ().into_any();
        }
        view! { <ul class="remarks">{rows}</ul> }.into_any()
    })
}
