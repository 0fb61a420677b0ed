//! The bar at the top: name, undo and redo, share, export, unit, language, theme, help.

use leptos::prelude::*;

use crate::dom;
use crate::erased::{aria, derived, flag, text};
use crate::export::ExportMenu;
use crate::format::Unit;
use crate::help::HELP_ID;
use crate::share::SHARE_ID;
use crate::state::{Choice, Language, Settings, Theme};

/// The bar.
#[component]
pub(crate) fn TopBar() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let choice = expect_context::<Choice>();
    view! {
        <header class="topbar">
            <a class="brand" href="/" aria-label="Tidemark">
                <img src=logo() width="22" height="22" alt="" />
                <span>"Tidemark"</span>
            </a>
            <nav class="pages" aria-label="Tidemark">
                <a href="/" aria-current="page">{settings.word(|w| w.shell.title)}</a>
            </nav>
            <div class="tools">
                <Tool
                    icon="M7 5L3 9l4 4M3.500 9H12a4 4 0 010 8H8"
                    label=settings.word(|w| w.shell.undo)
                    disabled=flag(move || !choice.can_undo())
                    act=Callback::new(move |()| choice.undo())
                />
                <Tool
                    icon="M13 5l4 4-4 4M16.500 9H8a4 4 0 000 8h4"
                    label=settings.word(|w| w.shell.redo)
                    disabled=flag(move || !choice.can_redo())
                    act=Callback::new(move |()| choice.redo())
                />
                <span class="divider"></span>
                <button type="button" class="tool text" id="open-share" on:click=|_| open(SHARE_ID)>
                    {settings.word(|w| w.shell.share)}
                </button>
                <ExportMenu />
                <span class="divider"></span>
                <UnitSwitch />
                <LanguageSwitch />
                <ThemeSwitch />
                <button
                    type="button"
                    class="tool"
                    id="open-help"
                    title=settings.word(|w| w.shell.help)
                    aria-label=settings.word(|w| w.shell.help)
                    on:click=|_| open(HELP_ID)
                >
                    "?"
                </button>
            </div>
        </header>
    }
}

/// The logo's address, hashed by the bundler, as the page's icon names it.
fn logo() -> String {
    dom::document()
        .and_then(|document| document.query_selector("link[rel=icon]").ok().flatten())
        .and_then(|link| link.get_attribute("href"))
        .unwrap_or_default()
}

fn open(id: &str) {
    dom::open_dialog_by_id(id);
}

/// A button with an icon.
#[component]
fn Tool(
    icon: &'static str,
    label: Signal<&'static str>,
    disabled: Signal<bool>,
    act: Callback<()>,
) -> impl IntoView {
    view! {
        <button
            type="button"
            class="tool"
            title=label
            aria-label=label
            disabled=disabled
            on:click=move |_| act.run(())
        >
            <svg viewBox="0 0 20 20" aria-hidden="true">
                <path d=icon fill="none" stroke="currentColor" stroke-width="1.700" stroke-linecap="round" stroke-linejoin="round" />
            </svg>
        </button>
    }
}

#[component]
fn UnitSwitch() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let option = move |unit: Unit| {
        view! {
            <button
                type="button"
                aria-pressed=aria(move || settings.unit() == unit)
                on:click=move |_| settings.set_unit(unit)
            >
                {unit.word()}
            </button>
        }
        .into_any()
    };
    view! {
        <div class="switcher" id="unit" role="group" aria-label=settings.word(|w| w.shell.unit)>
            {option(Unit::Gib)}{option(Unit::Gb)}
        </div>
    }
}

#[component]
fn LanguageSwitch() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let option = move |language: Language, name: &'static str| {
        view! {
            <button
                type="button"
                lang=language.tag()
                aria-pressed=aria(move || settings.language() == language)
                on:click=move |_| settings.set_language(language)
            >
                {name}
            </button>
        }
        .into_any()
    };
    view! {
        <div class="switcher" id="language" role="group" aria-label=settings.word(|w| w.shell.language)>
            {option(Language::English, "EN")}{option(Language::Chinese, "中文")}
        </div>
    }
}

#[component]
fn ThemeSwitch() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let words = move || &settings.words().shell;
    let is_dark = move || settings.theme() == Theme::Dark;
    let label = text(move || {
        let other = if is_dark() { words().light } else { words().dark };
        format!("{}: {other}", words().theme)
    });
    let flip = move |_| {
        let other = if untrack(is_dark) { Theme::Light } else { Theme::Dark };
        settings.set_theme(other);
    };
    let icon = derived(move || {
        if is_dark() {
            "M10 3v2M10 15v2M3 10h2M15 10h2M5 5l1.400 1.400M13.600 13.600L15 15M15 5l-1.400 1.400M6.400 13.600L5 15M13 10a3 3 0 11-6 0 3 3 0 016 0z"
        } else {
            "M16 11.500A6.500 6.500 0 018.500 4a6.500 6.500 0 107.500 7.500z"
        }
    });
    view! {
        <button type="button" class="tool" id="theme" title=label aria-label=label on:click=flip>
            <svg viewBox="0 0 20 20" aria-hidden="true">
                <path d=icon fill="none" stroke="currentColor" stroke-width="1.700" stroke-linecap="round" stroke-linejoin="round" />
            </svg>
        </button>
    }
}
