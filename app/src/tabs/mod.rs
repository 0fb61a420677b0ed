//! What stands below the timeline: one tab at a time.

mod allocator;
mod cursor;
mod peak;
mod ranks;
mod time;
mod why;

use leptos::prelude::*;
use web_sys::KeyboardEvent;

use crate::dom;
use crate::erased::{aria, derived, part, text};
use crate::state::{Answers, Look, Settings, Tab};

pub(crate) use cursor::FILTER_ID;

/// The tabs and the one that is open.
#[component]
pub(crate) fn Tabs() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let look = expect_context::<Look>();
    let key = move |event: KeyboardEvent| {
        let all = Tab::ALL;
        let now = all.iter().position(|tab| *tab == look.tab.get_untracked()).unwrap_or(0);
        let next = match event.key().as_str() {
            "ArrowRight" => (now + 1) % all.len(),
            "ArrowLeft" => (now + all.len() - 1) % all.len(),
            "Home" => 0,
            "End" => all.len() - 1,
            _ => return,
        };
        event.prevent_default();
        event.stop_propagation();
        look.tab.set(all[next]);
        dom::focus(&tab_id(all[next]));
    };
    let button = move |tab: Tab| {
        let is_open = move || look.tab.get() == tab;
        view! {
            <button
                type="button"
                role="tab"
                id=tab_id(tab)
                aria-controls="tab-panel"
                aria-selected=aria(is_open)
                tabindex=derived(move || if is_open() { "0" } else { "-1" })
                on:click=move |_| look.tab.set(tab)
            >
                {derived(move || (settings.words().tab)(tab))}
            </button>
        }
        .into_any()
    };
    let buttons: Vec<AnyView> = Tab::ALL.into_iter().map(button).collect();
    let panel = part(move || match look.tab.get() {
        Tab::Cursor => view! { <cursor::CursorTab /> }.into_any(),
        Tab::Peak => view! { <peak::PeakTab /> }.into_any(),
        Tab::Ranks => view! { <ranks::RanksTab /> }.into_any(),
        Tab::Time => view! { <time::TimeTab /> }.into_any(),
        Tab::Allocator => view! { <allocator::AllocatorTab /> }.into_any(),
        Tab::Why => view! { <why::WhyTab /> }.into_any(),
    });
    view! {
        <section
            class="tabs"
            class:stale=answers.late
            aria-busy=aria(move || answers.stale.get())
        >
            <div role="tablist" class="tablist" on:keydown=key>
                {buttons}
            </div>
            <div
                id="tab-panel"
                class="tab-panel"
                role="tabpanel"
                tabindex="0"
                aria-labelledby=text(move || tab_id(look.tab.get()))
            >
                {panel}
            </div>
        </section>
    }
}

fn tab_id(tab: Tab) -> String {
    format!("tab-{}", tab.word())
}

/// A category's colour and name.
#[component]
fn CategoryName(category: simulator::wire::timeline::Category) -> impl IntoView {
    let settings = expect_context::<Settings>();
    view! {
        <span class=format!("swatch c-{}", category.word())></span>
        {derived(move || (settings.words().category)(category))}
    }
}
