//! The box that jumps to any field.

use leptos::prelude::*;
use web_sys::KeyboardEvent;

use crate::dom;
use crate::engine::Rules;
use crate::erased::{aria, flag, maybe_text, memo, part, text};
use crate::field::{self, FieldName};
use crate::state::Settings;

/// The id of the box, for the key that focuses it.
pub(crate) const SEARCH_ID: &str = "f-search";

/// A combobox over the fields' names in the page's language and in other tools'.
#[component]
pub(super) fn FieldSearch() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let query = RwSignal::new(String::new());
    let chosen = RwSignal::new(0_usize);
    let rules = Rules::here();
    let hits = memo(move || {
        let words = settings.words();
        let mut hits = query.with(|query| field::find(query, |name| (words.field)(name).label));
        hits.retain(|name| rules.applies(*name));
        hits
    });
    let jump = move |name: FieldName| {
        query.set(String::new());
        dom::jump_to(name.id());
    };
    let key = move |event: KeyboardEvent| {
        let n = hits.with_untracked(Vec::len);
        match event.key().as_str() {
            "ArrowDown" if 0 < n => chosen.update(|index| *index = (*index + 1) % n),
            "ArrowUp" if 0 < n => chosen.update(|index| *index = (*index + n - 1) % n),
            "Enter" => {
                if let Some(name) = hits.with_untracked(|h| h.get(chosen.get_untracked()).copied())
                {
                    jump(name);
                }
            }
            "Escape" => query.set(String::new()),
            _ => return,
        }
        event.prevent_default();
    };
    let typed = move |event: web_sys::Event| {
        chosen.set(0);
        query.set(event_target_value(&event));
    };
    let list = part(move || {
        let options = hits.get().into_iter().enumerate();
        options
            .map(|(index, name)| {
                let is_chosen = move || chosen.get() == index;
                option(settings, (index, name), is_chosen, jump)
            })
            .collect::<Vec<AnyView>>()
            .into_any()
    });
    let is_open = move || hits.with(|hits| !hits.is_empty());
    view! {
        <div class="search">
            <input
                id=SEARCH_ID
                type="search"
                role="combobox"
                autocomplete="off"
                aria-controls="f-search-hits"
                aria-autocomplete="list"
                aria-expanded=aria(is_open)
                aria-activedescendant=maybe_text(move || is_open().then(|| option_id(chosen.get())))
                aria-label=settings.word(|w| w.form.search)
                placeholder=settings.word(|w| w.form.search)
                prop:value=text(move || query.get())
                on:input=typed
                on:keydown=key
                on:blur=move |_| query.set(String::new())
            />
            <ul id="f-search-hits" role="listbox" class="hits" hidden=flag(move || !is_open())
                aria-label=settings.word(|w| w.form.search)>
                {list}
            </ul>
        </div>
    }
}

/// One hit of the list.
fn option(
    settings: Settings,
    (index, name): (usize, FieldName),
    is_chosen: impl Fn() -> bool + Copy + Send + Sync + 'static,
    jump: impl Fn(FieldName) + Copy + 'static,
) -> AnyView {
    let pick = move |event: web_sys::MouseEvent| {
        event.prevent_default();
        jump(name);
    };
    view! {
        <li
            role="option"
            id=option_id(index)
            class:chosen=flag(is_chosen)
            aria-selected=aria(is_chosen)
            on:mousedown=pick
        >
            <span>{settings.label(name)}</span>
            <code>{name.path()}</code>
        </li>
    }
    .into_any()
}

fn option_id(index: usize) -> String {
    format!("f-search-{index}")
}
