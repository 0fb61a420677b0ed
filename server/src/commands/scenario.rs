//! `tidemark scenario check`: whether a file can be simulated.

use std::io::Write;
use std::process::ExitCode;

use simulator::catalog::Catalog;
use simulator::scenario;

use super::input;
use crate::cli::{Fields, Scenario};

pub(super) fn run(args: &Scenario) -> anyhow::Result<ExitCode> {
    let Scenario::Check { file } = args;
    let scenario = input::scenario(Some(file), &Fields::default())?;
    scenario::check(&scenario, &Catalog::builtin())?;
    writeln!(std::io::stdout(), "{}: no faults", file.display())?;
    Ok(ExitCode::SUCCESS)
}
