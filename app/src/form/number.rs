//! Fields that hold a number: a box, and a slider where the range is known.
//!
//! What is typed stays as typed until the field is left. A number that breaks a rule is taken, and
//! the rule says so; a text that is no number is not, and the field says so.

use leptos::prelude::*;
use web_sys::HtmlInputElement;

use super::access::{Access, Notation};
use super::scale::Scale;
use super::shell::{FieldShell, Reset};
use crate::engine::Rules;
use crate::erased::{derived, flag, invalid, text, when};
use crate::field::FieldName;
use crate::state::{Choice, Settings};

/// A number box's field, whatever the number's type.
#[derive(Clone, Copy)]
pub(super) struct Boxed {
    field: FieldName,
    reset: Reset,
    /// The value as it is written.
    text: Signal<String>,
    /// Takes what was typed, or says that it cannot be read.
    take: Callback<String, bool>,
    /// Whether a text can be read.
    reads: Callback<String, bool>,
    complaint: Signal<&'static str>,
    unit: Signal<&'static str>,
}

impl Boxed {
    /// The field of an access, in a notation.
    pub(super) fn new<T: Clone + PartialEq + Send + Sync + 'static>(
        access: Access<T>,
        notation: Notation<T>,
    ) -> Self {
        let settings = expect_context::<Settings>();
        let choice = expect_context::<Choice>();
        let value = access.value();
        let read = move |text: &str| (notation.read)(text, untrack(|| settings.unit()));
        let take = move |text: String| match read(&text) {
            Some(value) => {
                access.edit(choice, value);
                true
            }
            None => false,
        };
        Self {
            field: access.field,
            reset: access.reset(),
            text: text(move || value.with(|value| (notation.write)(value, settings.unit()))),
            take: Callback::new(take),
            reads: Callback::new(move |text: String| read(&text).is_some()),
            complaint: derived(move || (notation.complaint)(&settings.words().form)),
            unit: derived(move || (notation.unit)(settings.unit())),
        }
    }
}

/// A number box.
#[component]
pub(super) fn NumberField(
    boxed: Boxed,
    #[prop(optional)] placeholder: Signal<&'static str>,
) -> impl IntoView {
    view! {
        <FieldShell field=boxed.field reset=boxed.reset unit=boxed.unit>
            <NumberBox boxed placeholder />
        </FieldShell>
    }
}

/// A number box with a slider.
#[component]
pub(super) fn SliderField(
    access: Access<u64>,
    notation: Notation<u64>,
    scale: Signal<Scale>,
) -> impl IntoView {
    let choice = expect_context::<Choice>();
    let settings = expect_context::<Settings>();
    let value = access.value();
    let boxed = Boxed::new(access, notation);
    let slide = move |event: web_sys::Event| {
        let index = event_target::<HtmlInputElement>(&event).value_as_number();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let index = index.max(0.0) as usize;
        access.edit(choice, scale.with_untracked(|scale| scale.value(index)));
    };
    let last = text(move || scale.with(Scale::last).to_string());
    let index = text(move || scale.with(|scale| scale.index(value.get())).to_string());
    view! {
        <FieldShell field=boxed.field reset=boxed.reset unit=boxed.unit>
            <div class="slider">
                <input
                    type="range"
                    min="0"
                    max=last
                    prop:value=index
                    aria-label=settings.label(boxed.field)
                    aria-valuetext=boxed.text
                    on:input=slide
                    on:change=move |_| choice.end_gesture()
                />
                <NumberBox boxed placeholder=Signal::stored("") />
            </div>
        </FieldShell>
    }
}

#[component]
fn NumberBox(boxed: Boxed, placeholder: Signal<&'static str>) -> impl IntoView {
    let choice = expect_context::<Choice>();
    // What is being typed, until the box is left.
    let draft = RwSignal::new(None::<String>);
    let is_wrong = flag(move || draft.get().is_some_and(|text| !boxed.reads.run(text)));
    let faults = Rules::here().faults_at(boxed.field);
    let shown = text(move || draft.get().unwrap_or_else(|| boxed.text.get()));
    let typed = move |event: web_sys::Event| {
        let text = event_target_value(&event);
        boxed.take.run(text.clone());
        draft.set(Some(text));
    };
    let leave = move |_| {
        choice.end_gesture();
        draft.set(None);
    };
    let complaint =
        move || view! { <p class="complaint" role="alert">{boxed.complaint}</p> }.into_any();
    view! {
        <input
            id=boxed.field.id()
            class="number"
            type="text"
            inputmode="decimal"
            autocomplete="off"
            spellcheck="false"
            placeholder=placeholder
            prop:value=shown
            aria-invalid=invalid(move || is_wrong.get() || faults.with(|f| !f.is_empty()))
            on:input=typed
            on:blur=leave
        />
        {when(move || is_wrong.get(), complaint)}
    }
}
