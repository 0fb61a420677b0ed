//! Plans to start from.

use leptos::prelude::*;

use crate::engine;
use crate::erased::{derived, flag, memo};
use crate::state::{Choice, Look, Settings};

/// The list of presets; it shows the one that stands, if one does.
#[component]
pub(super) fn PresetPicker() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let choice = expect_context::<Choice>();
    let look = expect_context::<Look>();
    let chosen = memo(move || {
        choice
            .scenario
            .with(|now| engine::presets().iter().position(|preset| preset.scenario == *now))
    });
    let pick = move |event: web_sys::Event| {
        let index = event_target_value(&event).parse::<usize>().ok();
        if let Some(preset) = index.and_then(|index| engine::presets().get(index)) {
            choice.load(preset.scenario.clone());
            look.start_anew();
        }
    };
    let options: Vec<AnyView> = engine::presets()
        .iter()
        .enumerate()
        .map(|(index, preset)| {
            let name = derived(move || (settings.words().preset)(preset.id).unwrap_or(preset.name));
            let is_chosen = flag(move || chosen.get() == Some(index));
            view! { <option value=index.to_string() prop:selected=is_chosen>{name}</option> }
                .into_any()
        })
        .collect();
    view! {
        <label class="preset">
            <span>{settings.word(|w| w.form.preset)}</span>
            <select id="f-preset" on:change=pick>
                <option value="" disabled prop:selected=flag(move || chosen.get().is_none())>
                    {settings.word(|w| w.form.preset_own)}
                </option>
                {options}
            </select>
        </label>
    }
}
