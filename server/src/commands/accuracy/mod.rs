//! `tidemark accuracy`: predict measured runs, and say how far off the predictions are.

mod files;
mod table;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use rayon::prelude::*;
use serde::Serialize;
use simulator::accuracy::{
    Checked, Explain, Kind, Row, Setup, Status, Summary, explain, judge_capture, judge_published,
    predict, summarize,
};
use simulator::catalog::Catalog;
use simulator::simulate::Rates;
use simulator::wire::capture::{CaptureKind, kind_of, read_case};

use super::BAD_INPUT;
use crate::cli::{Accuracy, AccuracyCases};
use files::{Format, Input};

/// The exit code when a limit failed.
const LIMIT_FAILED: u8 = 1;

/// The JSON output. Its shape is a contract.
#[derive(Serialize)]
struct Output<'a> {
    cases: &'a [Row],
    summary: SummaryWithLimits<'a>,
}

#[derive(Serialize)]
struct SummaryWithLimits<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    limits: &'a [Checked],
}

pub(super) fn run(args: &Accuracy) -> anyhow::Result<ExitCode> {
    if args.times.profile.is_some() {
        bail!("--profile: hardware profiles from files are not supported yet");
    }
    if !args.times.calibrate.is_empty() {
        bail!("--calibrate: calibration is not supported yet");
    }
    let rates = if args.times.nominal { Rates::Nominal } else { Rates::Best };
    let catalog = Catalog::builtin();
    let setup = Setup { catalog: &catalog, rates };
    let inputs = files::collect(&args.paths)?;
    match &args.explain.explain {
        Some(id) => explain_case(args, &inputs, id, setup),
        None => judge_all(args, &inputs, setup),
    }
}

fn judge_all(args: &Accuracy, inputs: &[Input], setup: Setup<'_>) -> anyhow::Result<ExitCode> {
    let judged: Vec<Vec<Row>> = inputs.par_iter().map(|input| judge(input, setup)).collect();
    let rows: Vec<Row> = judged
        .into_iter()
        .flatten()
        .filter(|row| row.status == Status::Invalid || is_chosen(&args.cases, row))
        .collect();
    if rows.is_empty() {
        bail!("no run is chosen: --id, --family and --kind leave none");
    }
    let summary = summarize(&rows);
    let limits = args.max.iter().chain(&args.min).flat_map(|limits| &limits.0);
    let limits: Vec<Checked> = limits.map(|limit| limit.check(&summary)).collect();
    let mut out = io::stdout().lock();
    if args.json {
        let summary = SummaryWithLimits { summary: &summary, limits: &limits };
        serde_json::to_writer_pretty(&mut out, &Output { cases: &rows, summary })?;
        writeln!(out)?;
    } else {
        out.write_all(table::text(&rows, &summary, &limits).as_bytes())?;
    }
    Ok(ExitCode::from(if 0 < summary.invalid {
        BAD_INPUT
    } else if limits.iter().any(|checked| !checked.holds) {
        LIMIT_FAILED
    } else {
        0
    }))
}

fn judge(input: &Input, setup: Setup<'_>) -> Vec<Row> {
    let name = input.name();
    let bytes = match input.read() {
        Ok(bytes) => bytes,
        Err(error) => return Vec::from([Row::invalid(name, Kind::Case, error.to_string())]),
    };
    match input.format {
        Format::Capture => Vec::from([judge_capture(&name, &bytes, setup)]),
        Format::Rows => judge_rows(&name, &bytes, setup),
    }
}

/// The rows of a file of published runs, in order.
fn judge_rows(name: &str, bytes: &[u8], setup: Setup<'_>) -> Vec<Row> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<(usize, &str)> =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).collect();
    lines
        .par_iter()
        .map(|(index, line)| judge_published(&format!("{name}:{}", index + 1), line, setup))
        .collect()
}

fn is_chosen(cases: &AccuracyCases, row: &Row) -> bool {
    (cases.family.is_empty() || cases.family.contains(&row.family))
        && (cases.id.is_empty() || cases.id.iter().any(|pattern| matches(pattern, &row.id)))
}

/// Whether a text matches a pattern in which `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            text.char_indices()
                .map(|(at, _)| at)
                .chain([text.len()])
                .any(|at| matches(rest, &text[at..]))
        }),
    }
}

fn explain_case(
    args: &Accuracy,
    inputs: &[Input],
    id: &str,
    setup: Setup<'_>,
) -> anyhow::Result<ExitCode> {
    let how = Explain {
        smallest: args.explain.smallest,
        places: args.explain.places,
        ..Explain::default()
    };
    for input in inputs.iter().filter(|input| input.format == Format::Capture) {
        if input.name() != id && inputs.len() != 1 {
            continue;
        }
        let bytes = input.read().with_context(|| input.path.display().to_string())?;
        if kind_of(&bytes)? != CaptureKind::Case {
            continue;
        }
        let capture = read_case(&bytes)?;
        let simulation = predict(&capture, setup).map_err(anyhow::Error::msg)?;
        io::stdout().lock().write_all(explain(&simulation, &capture, how).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    bail!("no captured case is called {id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_ids() {
        assert!(matches("llama*", "llama1b-bf16"));
        assert!(matches("*-bf16", "llama1b-bf16"));
        assert!(matches("l*1b*", "llama1b-bf16"));
        assert!(!matches("llama", "llama1b-bf16"));
        assert!(!matches("*-fp32", "llama1b-bf16"));
    }
}
