//! Where the workspace is, and how a command is run from it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The checked-out workspace and the folder Cargo builds into.
#[derive(Debug, Clone)]
pub struct Workspace {
    pub root: PathBuf,
    pub target: PathBuf,
}

impl Workspace {
    /// Finds the workspace from the environment Cargo gives, or upwards from the current folder.
    ///
    /// Asked at run time and not compiled in: a build folder may be moved to another clone.
    ///
    /// # Errors
    /// When neither leads to a folder with a `Cargo.lock`.
    pub fn find() -> Result<Self> {
        let start = match env::var_os("CARGO_MANIFEST_DIR") {
            Some(dir) => PathBuf::from(dir),
            None => env::current_dir().context("no current folder")?,
        };
        let Some(root) = start.ancestors().find(|dir| dir.join("Cargo.lock").is_file()) else {
            bail!("no Cargo.lock in {} or above it", start.display());
        };
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(dir) => root.join(dir),
            None => root.join("target"),
        };
        Ok(Self { root: root.to_path_buf(), target })
    }

    /// A command that starts in the root of the workspace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// Cargo, the one that runs this program if there is one.
    pub fn cargo(&self, args: &[&str]) -> Command {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = self.command(cargo);
        // `cargo run` describes this package to us; a build script must not see that.
        for (name, _) in env::vars_os() {
            let inherited =
                name.to_str().is_some_and(|n| n.starts_with("CARGO_PKG_") || n == "OUT_DIR");
            if inherited {
                command.env_remove(name);
            }
        }
        command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH").args(args);
        command
    }

    /// The server's binary as the release profile leaves it.
    pub fn binary(&self) -> PathBuf {
        self.target.join("release").join("tidemark")
    }
}

/// Runs a command to its end, output shown, and fails when it fails.
///
/// # Errors
/// When the command cannot be started or does not exit with 0.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = describe(command);
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Runs a command silently and gives its standard output.
///
/// # Errors
/// When the command cannot be started or does not exit with 0; standard error is in the message.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = describe(command);
    let out = command.output().with_context(|| format!("cannot start `{shown}`"))?;
    if !out.status.success() {
        bail!("`{shown}` failed ({}): {}", out.status, String::from_utf8_lossy(&out.stderr).trim());
    }
    String::from_utf8(out.stdout).with_context(|| format!("`{shown}` printed no text"))
}

/// The command as a person would type it.
pub fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let mut words = vec![name.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}

/// The first program of these names on the search path.
pub fn which(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |dir| dir.join(name)))
        .find(|p| p.is_file())
}

/// Writes a file unless it already holds these bytes: build scripts look at modification times.
///
/// # Errors
/// When the folder or file cannot be written.
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<bool> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot make folder {}", folder.display()))?;
    }
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(true)
}

/// Every file below a folder, sorted, so that nothing depends on the file system's order.
///
/// # Errors
/// When a folder cannot be read.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(dir) = open.pop() {
        let entries =
            fs::read_dir(&dir).with_context(|| format!("cannot read folder {}", dir.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("in {}", dir.display()))?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
