//! The page: form, timeline and tables over the simulator, client side.
//!
//! It computes no physical quantity: it formats what `simulator` says.
//!
//! ```text
//! address ─► state (what the user chose) ─► worker (simulator) ─► answers ─► view_model ─► view
//!               ▲            form, keys ─┘                          format, words ─┘
//! ```

#![expect(unreachable_pub, reason = "the component macro makes props pub whatever is asked for")]

mod address;
mod app;
mod applies;
mod asking;
mod dom;
mod edit;
mod engine;
mod erased;
mod export;
mod field;
mod form;
mod format;
mod help;
mod http;
mod page;
mod performance;
mod plan;
mod share;
mod state;
mod tabs;
pub mod timeline;
mod topbar;
mod url;
mod verdict;
mod view_model;
mod words;
mod worker;

use leptos::prelude::*;
use wasm_bindgen::prelude::wasm_bindgen;

/// Starts the page; `spawn` makes a worker that already holds the compiled module.
#[wasm_bindgen]
pub fn start(spawn: js_sys::Function) {
    console_error_panic_hook::set_once();
    let Some(root) = dom::element("app") else { return };
    root.set_inner_html("");
    mount_to(root, move || view! { <app::App spawn /> }).forget();
}

/// Serves questions; called in a worker.
#[wasm_bindgen]
pub fn serve() {
    console_error_panic_hook::set_once();
    worker::serve();
}
