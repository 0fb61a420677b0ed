//! A model or a whole plan from a file: dropped anywhere on the page, chosen, or pasted.

use leptos::html;
use leptos::prelude::*;
use leptos::task::spawn_local;
use simulator::wire::Faults;
use wasm_bindgen_futures::JsFuture;
use web_sys::{File, HtmlInputElement};

use super::settle;
use super::shell::FaultList;
use crate::dom;
use crate::engine::{self, Imported};
use crate::erased::{derived, flag, maybe_text, when};
use crate::state::{Choice, Look, Settings};

/// A file larger than this is no configuration.
const MOST_BYTES: f64 = 4e6;

/// How the last import went.
#[derive(Clone, Copy)]
pub(crate) struct Import {
    choice: Choice,
    look: Look,
    pub(super) outcome: RwSignal<Option<(String, Faults)>>,
    /// Whether a file hovers over the page.
    pub hovering: RwSignal<bool>,
}

impl Import {
    pub(crate) fn new(choice: Choice, look: Look) -> Self {
        Self { choice, look, outcome: RwSignal::new(None), hovering: RwSignal::new(false) }
    }

    /// Takes a text as model or plan; faults are kept to be shown.
    fn take(self, name: &str, text: &str) -> bool {
        let faults = match engine::import(text) {
            Ok(Imported::Model(model)) => {
                self.choice.set(|scenario| settle::set_model(scenario, model));
                Faults::default()
            }
            Ok(Imported::Scenario(scenario)) => {
                self.choice.load(*scenario);
                Faults::default()
            }
            Err(faults) => faults,
        };
        let is_taken = faults.is_empty();
        if is_taken {
            self.look.start_anew();
        }
        self.outcome.set(Some((name.to_owned(), faults)));
        is_taken
    }
}

/// Reads a dropped or chosen file.
fn take_file(import: Import, file: File) {
    spawn_local(async move {
        let name = file.name();
        if MOST_BYTES < file.size() {
            let fault = simulator::wire::Fault::new(
                "",
                simulator::wire::Rule::Range,
                "the file is larger than 4 MB, which no configuration is",
            );
            import.outcome.try_set(Some((name, fault.into())));
            return;
        }
        if let Ok(text) = JsFuture::from(file.text()).await {
            import.take(&name, &text.as_string().unwrap_or_default());
        }
    });
}

/// The place that says that a file can be dropped, with the other two ways and the last outcome.
#[component]
pub(crate) fn DropZone() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let import = expect_context::<Import>();
    let dialog = NodeRef::<html::Dialog>::new();
    let chosen = move |event: web_sys::Event| {
        let input = event_target::<HtmlInputElement>(&event);
        if let Some(file) = input.files().and_then(|files| files.get(0)) {
            take_file(import, file);
        }
        input.set_value("");
    };
    let open = move |_| {
        if let Some(dialog) = dialog.get_untracked() {
            dom::open_dialog(&dialog);
        }
    };
    let invitation = derived(move || {
        let words = &settings.words().form;
        if import.hovering.get() { words.drop_now } else { words.drop_here }
    });
    view! {
        <div class="drop" class:hovering=flag(move || import.hovering.get())>
            <span>{invitation}</span>
            <span class="drop-ways">
                <label class="link">
                    <input
                        id="f-file"
                        class="hidden-input"
                        type="file"
                        accept=".json,application/json"
                        on:change=chosen
                    />
                    {settings.word(|w| w.form.choose_file)}
                </label>
                " · "
                <button type="button" class="link" id="f-paste" on:click=open>
                    {settings.word(|w| w.form.paste)}
                </button>
            </span>
        </div>
        <Outcome />
        <PasteDialog dialog />
    }
}

#[component]
fn Outcome() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let import = expect_context::<Import>();
    let faults = derived(move || {
        import.outcome.with(|o| o.as_ref().map(|(_, faults)| faults.0.clone()).unwrap_or_default())
    });
    let text = maybe_text(move || {
        let words = &settings.words().form;
        import.outcome.with(|outcome| {
            outcome.as_ref().map(|(name, faults)| {
                if faults.is_empty() { (words.imported)(name) } else { (words.import_failed)(name) }
            })
        })
    });
    let dismiss = move |_| import.outcome.set(None);
    let outcome = move || {
        view! {
            <div class="import-outcome" role="status">
                <p>
                    <span>{text}</span>
                    <button type="button" class="link" on:click=dismiss>
                        {settings.word(|w| w.shell.dismiss)}
                    </button>
                </p>
                <FaultList faults with_path=true />
            </div>
        }
        .into_any()
    };
    when(move || import.outcome.with(Option::is_some), outcome)
}

#[component]
fn PasteDialog(dialog: NodeRef<html::Dialog>) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let import = expect_context::<Import>();
    let area = NodeRef::<html::Textarea>::new();
    let close = move || {
        if let Some(dialog) = dialog.get_untracked() {
            dialog.close();
        }
    };
    let submit = move |event: web_sys::SubmitEvent| {
        event.prevent_default();
        let Some(area) = area.get_untracked() else { return };
        if import.take("config.json", &area.value()) {
            area.set_value("");
        }
        close();
    };
    view! {
        <dialog node_ref=dialog class="dialog" aria-labelledby="paste-title">
            <form on:submit=submit>
                <h2 id="paste-title">{settings.word(|w| w.form.paste_title)}</h2>
                <p>{settings.word(|w| w.form.paste_help)}</p>
                <textarea
                    node_ref=area
                    id="f-paste-text"
                    rows="14"
                    spellcheck="false"
                    aria-labelledby="paste-title"
                ></textarea>
                <div class="dialog-foot">
                    <button type="button" class="button" on:click=move |_| close()>
                        {settings.word(|w| w.shell.close)}
                    </button>
                    <button type="submit" class="button primary">
                        {settings.word(|w| w.form.paste_use)}
                    </button>
                </div>
            </form>
        </dialog>
    }
}

/// Follows files over the whole page.
pub(crate) fn listen_for_drops(import: Import) {
    let holds_files = |event: &web_sys::DragEvent| {
        event.data_transfer().is_some_and(|data| data.types().includes(&"Files".into(), 0))
    };
    let over = window_event_listener(leptos::ev::dragover, move |event| {
        if holds_files(&event) {
            event.prevent_default();
            import.hovering.set(true);
        }
    });
    let leave = window_event_listener(leptos::ev::dragleave, move |event| {
        if event.related_target().is_none() {
            import.hovering.set(false);
        }
    });
    let drop = window_event_listener(leptos::ev::drop, move |event| {
        import.hovering.set(false);
        if !holds_files(&event) {
            return;
        }
        event.prevent_default();
        let files = event.data_transfer().and_then(|data| data.files());
        if let Some(file) = files.and_then(|files| files.get(0)) {
            take_file(import, file);
        }
    });
    on_cleanup(move || {
        over.remove();
        leave.remove();
        drop.remove();
    });
}
