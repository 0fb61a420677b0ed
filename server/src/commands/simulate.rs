//! `tidemark simulate`: the answer as text, as JSON, or one step in another tool's format.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use simulator::catalog::Catalog;
use simulator::wire::report::{Outcome, StepKind};
use simulator::{Simulation, export, scenario};

use super::input;
use crate::cli::{Export, Simulate, Step};
use crate::output;

pub(super) fn run(args: &Simulate) -> anyhow::Result<ExitCode> {
    let scenario = input::scenario(args.file.as_deref(), &args.fields)?;
    let valid = scenario::check(&scenario, &Catalog::builtin())?;
    let simulation = simulator::simulate(&valid);
    let mut to = writer(args)?;
    write(&mut to, args, &simulation)?;
    to.flush()?;
    Ok(exit_code(simulation.report.verdict.outcome))
}

fn write(to: &mut dyn Write, args: &Simulate, simulation: &Simulation) -> anyhow::Result<()> {
    let (step, timeline) = match args.output.step {
        Step::First => (StepKind::First, &simulation.first),
        Step::Steady => (StepKind::Steady, &simulation.steady),
    };
    match args.output.format {
        _ if args.output.json => {
            serde_json::to_writer_pretty(&mut *to, &simulation.report)?;
            writeln!(to)?;
        }
        None => output::report::write(to, simulation)?,
        Some(Export::TimelineJson) => serde_json::to_writer(&mut *to, timeline)?,
        Some(Export::ChromeTrace) => {
            to.write_all(export::chrome_trace(&simulation.report, timeline).as_bytes())?;
        }
        Some(Export::Snapshot) => to.write_all(&export::snapshot_pickle(simulation, step))?,
        Some(Export::Csv) => to.write_all(export::csv(&simulation.report, timeline).as_bytes())?,
    }
    Ok(())
}

/// The file asked for, or standard output. A snapshot is not text: a terminal would be garbled.
fn writer(args: &Simulate) -> anyhow::Result<Box<dyn Write>> {
    if let Some(file) = args.output.output.as_deref().filter(|file| *file != Path::new("-")) {
        let open = File::create(file);
        let open = open.with_context(|| format!("{} cannot be written", file.display()))?;
        return Ok(Box::new(BufWriter::new(open)));
    }
    if args.output.format == Some(Export::Snapshot) && io::stdout().is_terminal() {
        bail!("a snapshot is binary: give --output FILE");
    }
    Ok(Box::new(BufWriter::new(io::stdout().lock())))
}

fn exit_code(outcome: Outcome) -> ExitCode {
    match outcome {
        Outcome::Fits => ExitCode::SUCCESS,
        Outcome::DoesNotFit => ExitCode::from(1),
        Outcome::TooClose => ExitCode::from(3),
    }
}
