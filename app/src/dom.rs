//! Small helpers over the browser; nothing here fails loudly, because nothing here is essential.

use leptos::prelude::*;
use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::Closure;
use web_sys::{Document, Element, HtmlDialogElement, HtmlElement, Storage, Window};

const PREFIX: &str = "tidemark:";

pub(crate) fn window() -> Option<Window> {
    web_sys::window()
}

pub(crate) fn document() -> Option<Document> {
    window()?.document()
}

fn storage() -> Option<Storage> {
    window()?.local_storage().ok().flatten()
}

/// A value kept in the browser.
pub(crate) fn stored(key: &str) -> Option<String> {
    storage()?.get_item(&format!("{PREFIX}{key}")).ok().flatten()
}

/// Keeps a value; silently forgets it where storage is forbidden.
pub(crate) fn store(key: &str, value: &str) {
    if let Some(storage) = storage() {
        drop(storage.set_item(&format!("{PREFIX}{key}"), value));
    }
}

pub(crate) fn preferred_language() -> Option<String> {
    window()?.navigator().language()
}

/// `document.documentElement.dataset[key]`.
pub(crate) fn root_data(key: &str) -> Option<String> {
    document()?.document_element()?.get_attribute(&format!("data-{key}"))
}

pub(crate) fn set_root(attribute: &str, value: &str) {
    if let Some(root) = document().and_then(|document| document.document_element()) {
        drop(root.set_attribute(attribute, value));
    }
}

pub(crate) fn set_title(title: &str) {
    if let Some(document) = document() {
        document.set_title(title);
    }
}

/// The element with an id, as an HTML element.
pub(crate) fn element(id: &str) -> Option<HtmlElement> {
    document()?.get_element_by_id(id)?.dyn_into().ok()
}

pub(crate) fn focus(id: &str) {
    if let Some(element) = element(id) {
        drop(element.focus());
    }
}

/// Brings a field into view, opens the folds around it, and focuses it.
pub(crate) fn jump_to(id: &str) {
    let Some(element) = element(id) else { return };
    let mut around = element.parent_element();
    while let Some(parent) = around {
        if parent.tag_name() == "DETAILS" {
            drop(parent.set_attribute("open", ""));
        }
        around = parent.parent_element();
    }
    element.scroll_into_view_with_bool(false);
    drop(element.focus());
}

pub(crate) fn open_dialog(dialog: &HtmlDialogElement) {
    if !dialog.open() {
        drop(dialog.show_modal());
    }
}

pub(crate) fn open_dialog_by_id(id: &str) {
    let dialog = element(id).and_then(|element| element.dyn_into::<HtmlDialogElement>().ok());
    if let Some(dialog) = dialog {
        open_dialog(&dialog);
    }
}

/// Whether keys belong to the focused element, because text is typed there.
pub(crate) fn is_typing() -> bool {
    let Some(active) = document().and_then(|document| document.active_element()) else {
        return false;
    };
    match active.tag_name().as_str() {
        "TEXTAREA" | "SELECT" => true,
        "INPUT" => !matches!(
            active.get_attribute("type").as_deref(),
            Some("range" | "checkbox" | "radio" | "button")
        ),
        _ => false,
    }
}

/// Offers bytes as a file.
pub(crate) fn download(name: &str, mime: &str, bytes: &[u8]) {
    let parts = js_sys::Array::of1(&js_sys::Uint8Array::from(bytes));
    let options = web_sys::BlobPropertyBag::new();
    options.set_type(mime);
    let Ok(blob) = web_sys::Blob::new_with_u8_array_sequence_and_options(&parts, &options) else {
        return;
    };
    download_blob(name, &blob);
}

/// Offers a blob as a file.
pub(crate) fn download_blob(name: &str, blob: &web_sys::Blob) {
    let Ok(url) = web_sys::Url::create_object_url_with_blob(blob) else { return };
    let link = document()
        .and_then(|document| document.create_element("a").ok())
        .and_then(|link| link.dyn_into::<web_sys::HtmlAnchorElement>().ok());
    if let Some(link) = link {
        link.set_href(&url);
        link.set_download(name);
        link.click();
    }
    drop(web_sys::Url::revoke_object_url(&url));
}

/// Calls back with the size of an element when it changes, until the owner is cleaned up.
pub(crate) fn on_resize(element: &Element, resized: impl Fn(f64, f64) + 'static) {
    let callback = Closure::<dyn FnMut(js_sys::Array)>::new(move |entries: js_sys::Array| {
        if let Ok(entry) = entries.get(0).dyn_into::<web_sys::ResizeObserverEntry>() {
            let rect = entry.content_rect();
            resized(rect.width(), rect.height());
        }
    });
    let Ok(observer) = web_sys::ResizeObserver::new(callback.as_ref().unchecked_ref()) else {
        return;
    };
    observer.observe(element);
    let kept = StoredValue::new_local((observer, callback));
    on_cleanup(move || {
        kept.try_with_value(|(observer, _)| observer.disconnect());
    });
}
