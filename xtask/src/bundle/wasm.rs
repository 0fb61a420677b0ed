//! The app's WebAssembly module: cargo, then wasm-bindgen as a library, then wasm-opt.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

use super::cache::{cached, sha256_hex};
use super::names::Source;
use crate::node;
use crate::rust::{WASM, ensure_wasm_target};
use crate::shell::{Workspace, files_below, run};

/// The simulator inside is hot, so speed comes before the last kilobytes.
const WASM_OPT_LEVEL: &str = "-O3";

/// Builds the app and returns its files under their logical names.
pub(super) fn build(workspace: &Workspace) -> Result<Vec<Source>> {
    ensure_wasm_target(workspace)?;
    eprintln!("· building the app for WebAssembly");
    run(&mut workspace.cargo(&[
        "build",
        "--package",
        "app",
        "--target",
        WASM,
        "--profile",
        "wasm",
    ]))?;
    let module = workspace.target.join(WASM).join("wasm").join("app.wasm");
    let folder = workspace.target.join("bindgen");
    bindgen(&module, &folder)?;
    let mut sources = Vec::new();
    for path in files_below(&folder)? {
        let name = path.strip_prefix(&folder)?.to_str().context("a file name that is no UTF-8")?;
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let bytes = match Path::new(name).extension().and_then(|e| e.to_str()) {
            Some("wasm") => optimise(workspace, bytes)?,
            // Imports of generated snippets are relative; assets name each other from the root.
            Some("js") => rooted_snippets(&bytes)?,
            _ => bytes,
        };
        sources.push(Source { logical: format!("assets/{name}"), bytes, fixed: false });
    }
    Ok(sources)
}

/// Writes `app.js`, `app_bg.wasm` and snippets. The glue's version is that of the lock file, because
/// the tool is a library here: the classic mismatch of the two cannot happen.
fn bindgen(module: &Path, folder: &Path) -> Result<()> {
    if folder.is_dir() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(module)
        .out_name("app")
        .typescript(false)
        .remove_name_section(true)
        .remove_producers_section(true)
        // The page passes the hashed address itself: `init({ module_or_path })`.
        .omit_default_module_path(true)
        .web(true)?;
    bindgen.generate(folder).context("wasm-bindgen failed")
}

fn rooted_snippets(js: &[u8]) -> Result<Vec<u8>> {
    let text = std::str::from_utf8(js).context("generated script is no UTF-8")?;
    Ok(text.replace("'./snippets/", "'/assets/snippets/").into_bytes())
}

/// Runs wasm-opt of the pinned npm package, or says in one line that it is skipped.
fn optimise(workspace: &Workspace, module: Vec<u8>) -> Result<Vec<u8>> {
    let tools = workspace.root.join("xtask").join("node");
    if let Err(error) = node::install(workspace, &tools) {
        eprintln!("· wasm-opt skipped ({error}): the page works, but loads a little more");
        return Ok(module);
    }
    let lock = fs::read(tools.join("package-lock.json")).context("cannot read the lock file")?;
    let settings = format!("wasm-opt {WASM_OPT_LEVEL} {}", sha256_hex(&lock));
    cached(workspace, &settings, &module, || {
        eprintln!("· optimising the module (kept for the next time)");
        let work = workspace.target.join("bundle-cache");
        fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
        let (before, after) = (work.join("before.wasm"), work.join("after.wasm"));
        fs::write(&before, &module).context("cannot write the module for wasm-opt")?;
        let program = tools.join("node_modules").join("binaryen").join("bin").join("wasm-opt");
        let mut command = workspace.command("node");
        run(command.arg(program).arg(&before).arg(WASM_OPT_LEVEL).arg("-o").arg(&after))?;
        let optimised = fs::read(&after).context("wasm-opt wrote nothing")?;
        fs::remove_file(&before).and_then(|()| fs::remove_file(&after))?;
        Ok(optimised)
    })
}
