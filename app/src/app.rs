//! Which page the address names, in which language and theme.

use js_sys::Function;
use leptos::prelude::*;
use leptos::task::spawn_local;

use crate::address::{self, Place};
use crate::dom;
use crate::erased::effect;
use crate::page::Page;
use crate::state::Settings;
use crate::url::Link;
use crate::words::Shell;

const THEME: &str = "data-theme";

/// The whole page.
#[component]
pub(crate) fn App(spawn: Function) -> impl IntoView {
    let settings = Settings::load();
    provide_context(settings);
    effect(move || {
        dom::set_root("lang", settings.language().tag());
        dom::set_root(THEME, settings.theme().word());
        dom::set_title(&format!("{} · Tidemark", settings.words().shell.title));
    });
    // Paper is light.
    let before = window_event_listener(leptos::ev::beforeprint, |_| dom::set_root(THEME, "light"));
    let after = window_event_listener(leptos::ev::afterprint, move |_| {
        dom::set_root(THEME, untrack(|| settings.theme()).word());
    });
    on_cleanup(move || {
        before.remove();
        after.remove();
    });
    match address::read() {
        Place::Plan(link) => view! { <Page link spawn /> }.into_any(),
        Place::Stored(id) => view! { <StoredPage id spawn /> }.into_any(),
        Place::Unknown => view! { <NotFound /> }.into_any(),
    }
}

/// The plan behind a short link, once it is here.
#[component]
fn StoredPage(id: String, spawn: Function) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let spawn = StoredValue::new_local(spawn);
    let fetched = RwSignal::new(None::<Option<Link>>);
    spawn_local(async move {
        let link = address::fetch_stored(&id).await;
        fetched.try_set(Some(link));
    });
    move || match fetched.get() {
        None => view! { <p class="loading">{settings.words().shell.link_loading}</p> }.into_any(),
        Some(None) => view! { <Missing text=|shell| shell.link_missing /> }.into_any(),
        Some(Some(link)) => {
            let link = Ok(Some(Box::new(link)));
            view! { <Page link spawn=spawn.get_value() /> }.into_any()
        }
    }
}

#[component]
fn NotFound() -> impl IntoView {
    view! { <Missing text=|shell| shell.not_found_text /> }
}

#[component]
fn Missing(text: fn(&Shell) -> &'static str) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let words = move || &settings.words().shell;
    view! {
        <main class="missing">
            <h1>{settings.word(|w| w.shell.not_found)}</h1>
            <p>{move || text(words())}</p>
            <p><a href="/">{settings.word(|w| w.shell.to_plan)}</a></p>
        </main>
    }
}
