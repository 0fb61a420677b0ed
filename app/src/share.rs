//! The dialog with the links to what stands on the page.

use leptos::prelude::*;
use leptos::task::spawn_local;
use wasm_bindgen_futures::JsFuture;

use crate::address;
use crate::dom;
use crate::erased::{derived, memo, part};
use crate::state::{Answers, Choice, Look, Settings};

/// The dialog's id.
pub(crate) const SHARE_ID: &str = "share";

/// A short link, for the scenario it was made of.
type Short = Option<Result<String, String>>;

/// The dialog.
#[component]
pub(crate) fn ShareDialog() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let choice = expect_context::<Choice>();
    let look = expect_context::<Look>();
    let answers = expect_context::<Answers>();
    let words = move || &settings.words().share;
    let long = derived(move || address::long_link(&address::link(choice, look, answers)));
    let made = RwSignal::new(None::<(simulator::wire::Scenario, Result<String, String>)>);
    // Of this scenario only: after a change it has to be made anew.
    let short = memo(move || -> Short {
        made.with(|made| {
            let (of, link) = made.as_ref()?;
            choice.scenario.with(|now| (now == of).then(|| link.clone()))
        })
    });
    let ask = move |_| {
        let link = untrack(|| address::link(choice, look, answers));
        spawn_local(async move {
            let short = address::make_short(&link).await;
            made.try_set(Some((link.scenario, short)));
        });
    };
    let short_link = derived(move || short.get().and_then(Result::ok).unwrap_or_default());
    let failure = part(move || match short.get().and_then(Result::err) {
        Some(why) => {
            let text = (words().short_failed)(&why);
            view! { <p class="complaint" role="alert">{text}</p> }.into_any()
        }
        None => ().into_any(),
    });
    let short_row = part(move || {
        if short_link.with(String::is_empty) {
            let label = settings.word(|w| w.share.make_short);
            view! {
                <p><button type="button" class="button" id="make-short" on:click=ask>{label}</button></p>
            }
            .into_any()
        } else {
            let label = settings.word(|w| w.share.short_link);
            view! { <CopyRow id="share-short" label text=short_link /> }.into_any()
        }
    });
    view! {
        <dialog id=SHARE_ID class="dialog" aria-labelledby="share-title">
            <form method="dialog">
                <h2 id="share-title">{settings.word(|w| w.share.title)}</h2>
                <CopyRow id="share-long" label=settings.word(|w| w.share.long_link) text=long />
                {short_row}
                {failure}
                <p class="note">{settings.word(|w| w.share.note)}</p>
                <div class="dialog-foot">
                    <button class="button primary">{settings.word(|w| w.shell.close)}</button>
                </div>
            </form>
        </dialog>
    }
}

/// A link to read, select and copy.
#[component]
fn CopyRow(id: &'static str, label: Signal<&'static str>, text: Signal<String>) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let copied = RwSignal::new(None::<String>);
    let is_copied = move || copied.with(|copied| text.with(|text| copied.as_ref() == Some(text)));
    let state = derived(move || {
        let words = &settings.words().share;
        if is_copied() { words.copied } else { words.copy }
    });
    let copy = move |_| {
        let text = text.get_untracked();
        let Some(window) = dom::window() else { return };
        let promise = window.navigator().clipboard().write_text(&text);
        spawn_local(async move {
            if JsFuture::from(promise).await.is_ok() {
                copied.try_set(Some(text));
            }
        });
    };
    view! {
        <div class="copy-row">
            <label for=id>{label}</label>
            <input id=id type="text" readonly prop:value=text />
            <button type="button" class="button" on:click=copy aria-live="polite">{state}</button>
        </div>
    }
}
