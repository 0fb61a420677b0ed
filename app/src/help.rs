//! The keys: the dialog that lists them, and the ones that work anywhere on the page.

use leptos::ev;
use leptos::prelude::*;
use simulator::wire::report::StepKind;
use web_sys::KeyboardEvent;

use crate::dom;
use crate::erased::part;
use crate::form::search::SEARCH_ID;
use crate::state::{Choice, Look, Settings, Tab};
use crate::tabs::FILTER_ID;

/// The dialog's id.
pub(crate) const HELP_ID: &str = "help";

/// The list of keys.
#[component]
pub(crate) fn HelpDialog() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let words = move || &settings.words().help;
    let list = |keys: &'static [(&'static str, &'static str)]| {
        let row = |(keys, text): &'static (&'static str, &'static str)| {
            view! { <dt><kbd>{*keys}</kbd></dt><dd>{*text}</dd> }.into_any()
        };
        keys.iter().map(row).collect::<Vec<AnyView>>().into_any()
    };
    let timeline = part(move || list(words().timeline_keys));
    let page = part(move || list(words().page_keys));
    view! {
        <dialog id=HELP_ID class="dialog" aria-labelledby="help-title">
            <form method="dialog">
                <h2 id="help-title">{settings.word(|w| w.help.title)}</h2>
                <div class="two">
                    <section>
                        <h3>{settings.word(|w| w.help.timeline)}</h3>
                        <dl class="keys">{timeline}</dl>
                    </section>
                    <section>
                        <h3>{settings.word(|w| w.help.page)}</h3>
                        <dl class="keys">{page}</dl>
                    </section>
                </div>
                <div class="dialog-foot">
                    <button class="button primary">{settings.word(|w| w.shell.close)}</button>
                </div>
            </form>
        </dialog>
    }
}

/// Listens to the keys that work anywhere.
pub(crate) fn listen_for_keys(choice: Choice, look: Look) {
    let listener = window_event_listener(ev::keydown, move |event| {
        if event.default_prevented() {
            return;
        }
        let is_handled = if event.ctrl_key() || event.meta_key() {
            with_control(&event, choice)
        } else {
            !dom::is_typing() && !event.alt_key() && alone(&event, look)
        };
        if is_handled {
            event.prevent_default();
        }
    });
    on_cleanup(move || listener.remove());
}

fn with_control(event: &KeyboardEvent, choice: Choice) -> bool {
    match event.key().to_ascii_lowercase().as_str() {
        "k" => dom::jump_to(SEARCH_ID),
        // A text box undoes its own typing.
        _ if dom::is_typing() => return false,
        "z" if event.shift_key() => choice.redo(),
        "z" => choice.undo(),
        "y" => choice.redo(),
        _ => return false,
    }
    true
}

/// Opens the table of live tensors and goes to its filter.
pub(crate) fn search_tensors(look: Look) {
    look.tab.set(Tab::Cursor);
    // The tab's content is there after this event.
    request_animation_frame(|| dom::focus(FILTER_ID));
}

fn alone(event: &KeyboardEvent, look: Look) -> bool {
    match event.key().as_str() {
        "?" => dom::open_dialog_by_id(HELP_ID),
        "/" => search_tensors(look),
        "t" | "T" => look.step.update(|step| {
            *step = match step {
                StepKind::First => StepKind::Steady,
                StepKind::Steady => StepKind::First,
            };
        }),
        digit => {
            let index = digit.parse::<usize>().ok().and_then(|digit| digit.checked_sub(1));
            let Some(tab) = index.and_then(|index| Tab::ALL.get(index)) else { return false };
            look.tab.set(*tab);
        }
    }
    true
}
