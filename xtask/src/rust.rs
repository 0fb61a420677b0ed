//! What rustup must have added before the workspace builds.

use anyhow::{Context, Result};

use crate::shell::{Workspace, output, run, which};

/// The target of the page.
pub const WASM: &str = "wasm32-unknown-unknown";

/// Adds the WebAssembly target when it is missing.
///
/// # Errors
/// When the target is missing and rustup cannot add it.
pub fn ensure_wasm_target(workspace: &Workspace) -> Result<()> {
    let libdir =
        output(workspace.command("rustc").args(["--print", "target-libdir", "--target", WASM]))
            .unwrap_or_default();
    if std::path::Path::new(libdir.trim()).is_dir() {
        return Ok(());
    }
    eprintln!("· adding the target {WASM}");
    run(workspace.command("rustup").args(["target", "add", WASM])).with_context(|| {
        format!("the page needs Rust's target {WASM}: with rustup, `rustup target add {WASM}`")
    })
}

/// Adds rustfmt and clippy when a minimal toolchain came without them.
///
/// # Errors
/// When one is missing and rustup cannot add it.
pub fn ensure_components(workspace: &Workspace) -> Result<()> {
    for (program, component) in [("cargo-fmt", "rustfmt"), ("cargo-clippy", "clippy")] {
        let works = which(&[program]).is_some()
            && output(workspace.command(program).arg("--version")).is_ok();
        if !works {
            eprintln!("· adding {component}");
            run(workspace.command("rustup").args(["component", "add", component]))
                .with_context(|| format!("the tests need {component}"))?;
        }
    }
    Ok(())
}
