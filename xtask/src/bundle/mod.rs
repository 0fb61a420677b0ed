//! The bundle: everything the browser loads, ready to be embedded into the server.
//!
//! ```text
//! app (Rust) ── cargo, profile wasm ── wasm-bindgen ── wasm-opt ──┐
//! public/ (html, css, js, icons) ─────────────────────────────────┴─ names ── brotli ── target/bundle
//! ```
//!
//! Files refer to each other by logical name (`/assets/app.js`, `/assets/app_bg.wasm`,
//! `/assets/styles/app.css`), in html, css, js, svg and json alike; `names` puts the hashed name in
//! its place. A name inside the WebAssembly module is *not* rewritten: what Rust code loads (the
//! worker, say) is named in a `data-` attribute or `<link>` of index.html, or handed over by boot.js.
//! No script is ever inline, so the page runs under a strict content security policy.
//!
//! `server/build.rs` reads `manifest.tsv`, one line a file; nothing is rewritten when nothing changed,
//! so that the server is not rebuilt either.

mod cache;
mod names;
mod table;
mod wasm;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::shell::{Workspace, files_below};
use names::Source;

/// What was built, for the line that is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    pub n_files: usize,
    pub identity_bytes: u64,
    /// What a browser transfers: brotli where it helps.
    pub transfer_bytes: u64,
}

/// Builds the bundle into `target/bundle`.
///
/// # Errors
/// When a step fails, or a file of `public/` refers to an asset that does not exist.
pub fn build(workspace: &Workspace) -> Result<Summary> {
    let mut sources = wasm::build(workspace)?;
    sources.extend(public_files(&workspace.root.join("public"))?);
    if !sources.iter().any(|source| source.logical == "index.html") {
        bail!("public/index.html is missing: there is no page to bundle");
    }
    let named = names::resolve(sources)?;
    let summary = table::write(workspace, &named)?;
    eprintln!(
        "· bundle: {} files, {} kB, {} kB to transfer",
        summary.n_files,
        summary.identity_bytes / 1000,
        summary.transfer_bytes / 1000,
    );
    Ok(summary)
}

/// The hand-written files. Those a browser asks for by a fixed name keep it; all others are assets.
fn public_files(folder: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in files_below(folder)? {
        let relative = path.strip_prefix(folder).context("a file outside public/")?;
        let name = relative.to_str().context("a file name that is no UTF-8")?;
        if path.extension().is_some_and(|extension| extension == "md") {
            continue; // notes for people
        }
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let fixed = is_fixed(name);
        let logical = if fixed || name.starts_with("assets/") {
            name.to_owned()
        } else {
            format!("assets/{name}")
        };
        sources.push(Source { logical, bytes, fixed });
    }
    Ok(sources)
}

fn is_fixed(name: &str) -> bool {
    matches!(name, "index.html" | "favicon.ico" | "robots.txt") || name.ends_with(".webmanifest")
}
