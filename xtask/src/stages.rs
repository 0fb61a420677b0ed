//! `cargo xtask test`: the stages, their order, their time and the closing line.
//!
//! Stages run one after the other and all of them run, so that one report tells everything. Two
//! build folders' worth of work is shared on purpose: clippy uses the profiles of the builds after
//! it, so that build scripts and macros are compiled once.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::counts::Counts;
use crate::rust::WASM;
use crate::shell::{Workspace, describe};
use crate::system::{Need, ensure};
use crate::{accuracy, bundle, chores, node, rust, system};

/// One stage: its name, what it needs from the system, and how it runs.
struct Stage {
    name: &'static str,
    about: &'static str,
    needs: &'static [Need],
    run: fn(&Workspace) -> Result<Counts>,
}

/// In the order in which they run: the quick answers first.
const STAGES: &[Stage] = &[
    Stage { name: "fmt", about: "rustfmt", needs: &[], run: fmt },
    Stage { name: "tidy", about: "the rules of the house", needs: &[], run: tidy },
    Stage { name: "clippy", about: "clippy, native, every target", needs: &[], run: clippy },
    Stage {
        name: "clippy-wasm",
        about: "clippy as the page is built",
        needs: &[],
        run: clippy_wasm,
    },
    Stage { name: "bundle", about: "the page and the binary", needs: &[], run: build_page },
    Stage {
        name: "rust",
        about: "unit, property, conformance, API (SQLite and PostgreSQL) and doc tests",
        needs: &[Need::Postgres],
        run: rust_tests,
    },
    Stage {
        name: "accuracy",
        about: "predictions of measured runs, against their limits",
        needs: &[],
        run: predictions,
    },
    Stage { name: "parity", about: "native = WebAssembly", needs: &[Need::Node], run: parity },
    Stage {
        name: "browser",
        about: "the page in Chromium",
        needs: &[Need::Node, Need::Chromium, Need::ChineseFonts],
        run: browser,
    },
];

/// Everything native but this package, which is built alone: with the others its libraries would
/// get other features and be compiled twice.
const NATIVE: [&str; 4] = ["--release", "--workspace", "--exclude=xtask", "--locked"];

/// Prints the stages.
pub fn list() -> ExitCode {
    for stage in STAGES {
        println!("{:12} {}", stage.name, stage.about);
    }
    ExitCode::SUCCESS
}

/// Runs the stages, all or those named, and prints `N passed, N failed` as the last line.
///
/// # Errors
/// When a stage is asked for that does not exist.
pub fn run(workspace: &Workspace, only: Option<&str>) -> Result<ExitCode> {
    let chosen = choose(only)?;
    let mut rows = Vec::new();
    for stage in chosen {
        println!("\n== {}: {}", stage.name, stage.about);
        let start = Instant::now();
        let counts = outcome(workspace, stage);
        rows.push((stage.name, start.elapsed(), counts));
    }
    Ok(report(&rows))
}

fn choose(only: Option<&str>) -> Result<Vec<&'static Stage>> {
    let Some(only) = only else { return Ok(STAGES.iter().collect()) };
    let find = |name: &str| {
        let stage = STAGES.iter().find(|stage| stage.name == name);
        stage.with_context(|| format!("no stage {name}; `cargo xtask test --list` names them"))
    };
    only.split(',').map(str::trim).map(find).collect()
}

/// A stage that breaks off counts as one failure, even if no test of it failed.
fn outcome(workspace: &Workspace, stage: &Stage) -> Counts {
    let result = ensure(workspace, stage.needs).and_then(|()| (stage.run)(workspace));
    result.unwrap_or_else(|error| {
        println!("{}: {error:#}", stage.name);
        Counts::check(false)
    })
}

fn report(rows: &[(&str, Duration, Counts)]) -> ExitCode {
    let mut sum = Counts::default();
    println!("\n{:12} {:>8} {:>8} {:>8}", "stage", "minutes", "passed", "failed");
    for (name, time, counts) in rows {
        let minutes = time.as_secs_f64() / 60.0;
        println!("{name:12} {minutes:>8.1} {:>8} {:>8}", counts.passed, counts.failed);
        sum += *counts;
    }
    println!("{} passed, {} failed", sum.passed, sum.failed);
    if sum.failed == 0 && sum.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn fmt(workspace: &Workspace) -> Result<Counts> {
    rust::ensure_components(workspace)?;
    check(&mut workspace.cargo(&["fmt", "--all", "--check"]))
}

fn tidy(workspace: &Workspace) -> Result<Counts> {
    tests(&mut workspace.cargo(&["test", "--release", "--package=xtask", "--locked"]))
}

fn clippy(workspace: &Workspace) -> Result<Counts> {
    rust::ensure_components(workspace)?;
    let mut cargo = workspace.cargo(&["clippy", "--release", "--workspace", "--all-targets"]);
    check(cargo.args(["--locked", "--", "-Dwarnings"]))
}

fn clippy_wasm(workspace: &Workspace) -> Result<Counts> {
    rust::ensure_wasm_target(workspace)?;
    let mut cargo = workspace.cargo(&["clippy", "--profile=wasm", "--target", WASM]);
    check(cargo.args(["--package=simulator", "--package=app", "--locked", "--", "-Dwarnings"]))
}

/// Before the Rust tests, so that the binary is built once and already has the page inside.
fn build_page(workspace: &Workspace) -> Result<Counts> {
    bundle::build(workspace)?;
    check(workspace.cargo(&["build"]).args(NATIVE).arg("--bins"))
}

/// Properties are tried on the same cases every time, unless others are asked for.
fn rust_tests(workspace: &Workspace) -> Result<Counts> {
    const SEED: &str = "PROPTEST_RNG_SEED";
    let mut cargo = workspace.cargo(&["test"]);
    if std::env::var_os(SEED).is_none() {
        cargo.env(SEED, "2026");
    }
    tests(cargo.args(NATIVE).arg("--no-fail-fast"))
}

/// The limits that the predictions must keep.
fn predictions(workspace: &Workspace) -> Result<Counts> {
    if !workspace.binary().is_file() {
        chores::build(workspace)?;
    }
    check(&mut accuracy::limits(workspace))
}

/// `tests/parity` is a package with a WebAssembly library and a native binary that print digests of
/// one corpus, and a Node test that compares them.
fn parity(workspace: &Workspace) -> Result<Counts> {
    rust::ensure_wasm_target(workspace)?;
    // Together with the app, whose libraries are then already there with the same features.
    let packages = ["build", "--package=parity", "--package=app", "--lib"];
    check(workspace.cargo(&packages).args(["--target", WASM, "--profile=wasm", "--locked"]))?;
    check(workspace.cargo(&["build"]).args(NATIVE).args(["--bin", "parity"]))?;
    let module = workspace.target.join(WASM).join("wasm").join("parity.wasm");
    let mut node = workspace.command("node");
    node.env("PARITY_WASM", module)
        .env("PARITY_NATIVE", workspace.binary().with_file_name("parity"));
    tests(node.args(["--test", "--test-reporter=spec", "tests/parity/parity.test.mjs"]))
}

fn browser(workspace: &Workspace) -> Result<Counts> {
    let folder = workspace.root.join("tests").join("browser");
    node::install(workspace, &folder)?;
    if !workspace.binary().is_file() {
        chores::build(workspace)?;
    }
    let mut node = workspace.command("node");
    if let Some(chromium) = system::chromium() {
        node.env("CHROMIUM", chromium);
    }
    tests(node.env("TIDEMARK", workspace.binary()).arg(folder.join("run.mjs")))
}

/// A command that either succeeds or not: one check.
fn check(command: &mut Command) -> Result<Counts> {
    let shown = describe(command);
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(Counts::check(true))
}

/// A test runner: its output is shown and its summaries are added up.
fn tests(command: &mut Command) -> Result<Counts> {
    let shown = describe(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{shown}`"))?;
    let output = child.stdout.take().context("no pipe to the test runner")?;
    let mut counts = Counts::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("the test runner's output broke off")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        counts.read(&line);
    }
    std::io::stdout().flush()?;
    let status = child.wait().with_context(|| format!("lost `{shown}`"))?;
    if !status.success() && counts.failed == 0 {
        // Broken off, or it did not compile.
        counts.failed = 1;
    }
    if status.success() && counts.passed == 0 {
        bail!("`{shown}` ran no test");
    }
    Ok(counts)
}
