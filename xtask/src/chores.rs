//! The everyday chores: serve, build, accuracy, bench.

use anyhow::{Context, Result};

use crate::shell::{Workspace, run};
use crate::{accuracy as document, bundle};

/// Builds page and server and runs them until interrupted.
///
/// # Errors
/// When a build fails or the server ends with an error.
pub fn serve(workspace: &Workspace, port: Option<&str>, data: Option<&str>) -> Result<()> {
    binary_with_page(workspace)?;
    let mut server = workspace.command(workspace.binary());
    server.arg("serve");
    // What is not given is left to the server and its environment.
    for (name, value) in [("--port", port), ("--data", data)] {
        server.args(value.map(|value| [name, value]).into_iter().flatten());
    }
    replace_process(&mut server)
}

/// Becomes the server, so that an interrupt reaches it and it can stop in order.
#[cfg(unix)]
fn replace_process(server: &mut std::process::Command) -> Result<()> {
    use std::os::unix::process::CommandExt as _;
    Err(server.exec()).context("cannot start the server")
}

#[cfg(not(unix))]
fn replace_process(server: &mut std::process::Command) -> Result<()> {
    run(server)
}

/// One self-contained release binary with the page inside.
///
/// # Errors
/// When a build fails.
pub fn build(workspace: &Workspace) -> Result<()> {
    binary_with_page(workspace)?;
    let path = workspace.binary();
    let bytes = std::fs::metadata(&path).context("the binary was not built")?.len();
    println!("{} ({}.{} MB)", path.display(), bytes / 1_000_000, bytes / 100_000 % 10);
    Ok(())
}

fn binary_with_page(workspace: &Workspace) -> Result<()> {
    bundle::build(workspace)?;
    binary(workspace)
}

/// The server with whatever bundle there is; the words are those of the README, so that Cargo
/// builds the same thing for both.
fn binary(workspace: &Workspace) -> Result<()> {
    eprintln!("· building the server");
    run(&mut workspace.cargo(&["build", "--release", "--bin", "tidemark"]))
}

/// Writes docs/accuracy.md, or checks that it is up to date.
///
/// # Errors
/// When the build fails, or the document is out of date.
pub fn accuracy(workspace: &Workspace, check: bool) -> Result<()> {
    binary(workspace)?;
    document::write(workspace, check)
}

/// `tidemark bench` with the given arguments.
///
/// # Errors
/// When the build or the benchmark fails.
pub fn bench(workspace: &Workspace, args: &[String]) -> Result<()> {
    binary(workspace)?;
    run(workspace.command(workspace.binary()).arg("bench").args(args))
}
