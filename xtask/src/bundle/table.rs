//! Writing the bundle to disk: each file as it is and as brotli, and the manifest of all.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use brotli::enc::BrotliEncoderParams;

use super::Summary;
use super::cache::cached;
use super::names::Named;
use crate::shell::{Workspace, files_below, write_if_changed};

/// Writes the files and `manifest.tsv`; removes what no longer belongs to the bundle.
///
/// A line of the manifest: path, content type, SHA-256, `immutable` or `fixed`, `br` or `-`.
pub(super) fn write(workspace: &Workspace, files: &[Named]) -> Result<Summary> {
    let folder = workspace.target.join("bundle");
    let mut manifest = String::new();
    let mut kept = BTreeSet::from([folder.join("manifest.tsv")]);
    let mut summary = Summary { n_files: files.len(), identity_bytes: 0, transfer_bytes: 0 };
    for file in files {
        let plain = folder.join(file.path.trim_start_matches('/'));
        write_if_changed(&plain, &file.bytes)?;
        let compressed = compress(workspace, file)?;
        if let Some(bytes) = &compressed {
            let path = brotli_path(&plain);
            write_if_changed(&path, bytes)?;
            kept.insert(path);
        }
        kept.insert(plain);
        summary.identity_bytes += file.bytes.len() as u64;
        summary.transfer_bytes += compressed.as_ref().unwrap_or(&file.bytes).len() as u64;
        manifest.push_str(
            &[
                file.path.as_str(),
                content_type(&file.path),
                &file.sha256,
                if file.immutable { "immutable" } else { "fixed" },
                if compressed.is_some() { "br" } else { "-" },
            ]
            .join("\t"),
        );
        manifest.push('\n');
    }
    for path in files_below(&folder)? {
        if !kept.contains(&path) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    // Last, so that an interrupted run leaves no manifest that names files yet to come.
    write_if_changed(&folder.join("manifest.tsv"), manifest.as_bytes())?;
    Ok(summary)
}

/// `app.js` → `app.js.br`, beside it.
fn brotli_path(plain: &Path) -> std::path::PathBuf {
    let mut name = plain.as_os_str().to_owned();
    name.push(".br");
    name.into()
}

/// Brotli at its best level, where it makes the file smaller.
fn compress(workspace: &Workspace, file: &Named) -> Result<Option<Vec<u8>>> {
    let is_packed = [".png", ".jpg", ".webp", ".woff2"].iter().any(|e| file.path.ends_with(e));
    if is_packed {
        return Ok(None);
    }
    let compressed = cached(workspace, "brotli 11 22", &file.bytes, || {
        let params = BrotliEncoderParams {
            quality: 11,
            lgwin: 22,
            size_hint: file.bytes.len(),
            ..BrotliEncoderParams::default()
        };
        let mut out = Vec::new();
        brotli::BrotliCompress(&mut file.bytes.as_slice(), &mut out, &params)
            .context("brotli failed")?;
        Ok(out)
    })?;
    Ok((compressed.len() < file.bytes.len()).then_some(compressed))
}

fn content_type(path: &str) -> &'static str {
    match Path::new(path).extension().and_then(|e| e.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("json") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg") => "image/jpeg",
        Some("webp") => "image/webp",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
