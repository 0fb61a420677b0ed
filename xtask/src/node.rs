//! Node and the few npm packages of the house, each folder with its own lock file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::shell::{Workspace, output, run, which};

/// Oldest Node that the browser driver runs on.
pub const NODE_MIN: u32 = 20;

/// The major version of Node, or `None` when there is none.
pub fn version(workspace: &Workspace) -> Option<u32> {
    let text = output(workspace.command("node").arg("--version")).ok()?;
    text.trim().trim_start_matches('v').split('.').next()?.parse().ok()
}

/// Whether Node and npm can be used, or one line that says what is missing.
///
/// # Errors
/// When Node or npm is missing or too old.
pub fn ensure(workspace: &Workspace) -> Result<()> {
    match version(workspace) {
        None => bail!("Node is not installed"),
        Some(major) if major < NODE_MIN => {
            bail!("Node {major} is too old, {NODE_MIN} or newer is needed")
        }
        Some(_) if which(&["npm"]).is_none() => bail!("npm is not installed"),
        Some(_) => Ok(()),
    }
}

/// Installs what the lock file in `folder` names, unless exactly that is already there.
///
/// # Errors
/// When there is no Node or npm cannot install.
pub fn install(workspace: &Workspace, folder: &Path) -> Result<()> {
    ensure(workspace)?;
    let lock_path = folder.join("package-lock.json");
    let lock =
        fs::read(&lock_path).with_context(|| format!("cannot read {}", lock_path.display()))?;
    // npm's own marker has other fields than the lock file, so a copy of the latter is kept.
    let stamp = folder.join("node_modules").join(".installed-lock.json");
    if fs::read(&stamp).is_ok_and(|old| old == lock) {
        return Ok(());
    }
    run(workspace
        .command("npm")
        .args(["ci", "--no-progress", "--loglevel=error"])
        .current_dir(folder))?;
    fs::write(&stamp, lock).with_context(|| format!("cannot write {}", stamp.display()))
}
