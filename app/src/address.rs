//! The browser's side of links: reading the address at the start, keeping it up to date, short links.

use core::time::Duration;

use leptos::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use simulator::scenario::from_value;
use simulator::units::Bytes;
use simulator::wire::api::ShareRequest;
use simulator::wire::report::StepKind;
use wasm_bindgen::JsValue;

use crate::dom;
use crate::http;
use crate::state::{Answers, Choice, Look, Tab};
use crate::url::{self, Answered, Link, LinkFault};

/// Not more often: browsers stop a page that rewrites its address at pointer rate.
const PAUSE: Duration = Duration::from_millis(600);

/// What the address asks for.
pub(crate) enum Place {
    Plan(Result<Option<Box<Link>>, LinkFault>),
    /// A short link, by its id.
    Stored(String),
    Unknown,
}

/// Reads the address.
pub(crate) fn read() -> Place {
    let Some(location) = dom::window().map(|window| window.location()) else {
        return Place::Unknown;
    };
    let path = location.pathname().unwrap_or_default();
    match path.strip_prefix("/s/") {
        Some(id) if !id.is_empty() => Place::Stored(id.to_owned()),
        _ if path == "/" => {
            let link = url::decode(&location.search().unwrap_or_default());
            Place::Plan(link.map(|link| link.map(Box::new)))
        }
        _ => Place::Unknown,
    }
}

/// The link to what stands on the page.
pub(crate) fn link(choice: Choice, look: Look, answers: Answers) -> Link {
    Link {
        scenario: choice.scenario.get(),
        step: look.step.get(),
        tab: look.tab.get(),
        view: Some(look.view.with(crate::timeline::View::encode)),
        answered: answers
            .with(|answer| Answered {
                predictions: answer.report.engine.predictions,
                peak_bytes: answer.report.verdict.device_peak_bytes.get(),
            })
            .filter(|_| !answers.stale.get()),
    }
}

/// The same as an address to copy.
pub(crate) fn long_link(link: &Link) -> String {
    let origin = dom::window().and_then(|window| window.location().origin().ok());
    format!("{}/?{}", origin.unwrap_or_default(), url::encode(link))
}

/// Keeps the address up to date, with the last of quick changes.
///
/// While `is_kept` it stays: a link of a newer Tidemark is read by that one when the page is reloaded.
pub(crate) fn follow(choice: Choice, look: Look, answers: Answers, is_kept: Signal<bool>) {
    let due = StoredValue::new(None::<TimeoutHandle>);
    Effect::new(move |previous: Option<()>| {
        let link = link(choice, look, answers);
        // The first run is the page as it came; its address already says so, or is just `/`.
        if is_kept.get() || previous.is_none() {
            return;
        }
        if let Some(handle) = due.get_value() {
            handle.clear();
        }
        let write = move || replace(&format!("/?{}", url::encode(&link)));
        due.set_value(set_timeout_with_handle(write, PAUSE).ok());
    });
}

/// Replaces the address without a step in the browser's history: undo is the page's own.
fn replace(address: &str) {
    let history = dom::window().and_then(|window| window.history().ok());
    if let Some(history) = history {
        drop(history.replace_state_with_url(&JsValue::NULL, "", Some(address)));
    }
}

/// What the page showed of a stored plan, as the server keeps it.
#[derive(Serialize, Deserialize)]
struct StoredView {
    #[serde(default)]
    is_first_step: bool,
    #[serde(default)]
    tab: String,
    #[serde(default)]
    view: Option<String>,
    #[serde(default)]
    peak_bytes: Option<Bytes>,
}

/// Stores the plan on the server and returns the short link.
///
/// # Errors
///
/// What the server or the network said.
pub(crate) async fn make_short(link: &Link) -> Result<String, String> {
    let text = |error: serde_json::Error| error.to_string();
    let view = StoredView {
        is_first_step: link.step == StepKind::First,
        tab: link.tab.word().to_owned(),
        view: link.view.clone(),
        peak_bytes: link.answered.map(|answered| Bytes::new(answered.peak_bytes)),
    };
    let body = ShareRequest {
        scenario: document(&link.scenario).map_err(text)?,
        view: Some(document(&view).map_err(text)?),
    };
    let body = serde_json::to_string(&body).map_err(text)?;
    let stored = http::json("/api/v1/scenarios", Some(&body)).await?;
    let id = stored["id"].as_str().ok_or("the answer has no id")?;
    let origin = dom::window().and_then(|window| window.location().origin().ok());
    Ok(format!("{}/s/{}", origin.unwrap_or_default(), id))
}

/// Fetches the plan behind a short link; `None` when the server has none.
pub(crate) async fn fetch_stored(id: &str) -> Option<Link> {
    let id = js_sys::encode_uri_component(id).as_string()?;
    let stored = http::json(&format!("/api/v1/scenarios/{id}"), None).await.ok()?;
    let view = serde_json::to_vec(&stored["view"]).ok();
    let view: Option<StoredView> = view.and_then(|view| serde_json::from_slice(&view).ok());
    let predictions = stored["engine"]["predictions"].as_u64()?;
    let peak = view.as_ref().and_then(|view| view.peak_bytes);
    Some(Link {
        scenario: from_value(&stored["scenario"]).ok()?,
        step: match &view {
            Some(view) if view.is_first_step => StepKind::First,
            _ => StepKind::Steady,
        },
        tab: view.as_ref().and_then(|view| Tab::from_word(&view.tab)).unwrap_or_default(),
        view: view.and_then(|view| view.view),
        answered: peak.map(|peak| Answered { predictions, peak_bytes: peak.get() }),
    })
}

/// A value as a JSON document, by way of text: the page then has one reader and one writer.
fn document(value: &impl Serialize) -> serde_json::Result<Value> {
    serde_json::from_slice(&serde_json::to_vec(value)?)
}
