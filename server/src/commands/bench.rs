//! `tidemark bench`: how fast the simulator is on this machine.

use std::hint::black_box;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use simulator::catalog::Catalog;
use simulator::scenario::{self, ValidScenario};
use simulator::simulate::{Prepared, simulate};
use simulator::tide::{folded, stages};

use crate::cli::Bench;
use crate::output::format::seconds;
use crate::output::table::{Side, Table};

/// The most that a benchmark may take on a machine of two cores, in seconds.
const BUDGETS: [(&str, f64); 5] = [
    ("trace_llama3_8b", 3e-3),
    ("trace_llama3_8b_history", 8e-3),
    ("trace_llama3_405b", 25e-3),
    ("trace_405b_tp8_pp16", 40e-3),
    ("summary_405b_tp8_pp16", 1e-3),
];

/// Runs before anything is measured, so that caches and clocks have settled.
const WARM_UP: Duration = Duration::from_millis(200);
/// Runs of a benchmark go on this long, within the bounds below.
const MEASURE: Duration = Duration::from_secs(2);
const RUNS_MIN: usize = 5;
const RUNS_MAX: usize = 200;

struct Measured {
    name: &'static str,
    median_s: f64,
    runs: usize,
}

/// Rounds after which a benchmark that is over its budget counts as slow. A busy machine can make
/// anything slow once; nothing makes it faster than it is.
const ROUNDS: usize = 3;

pub(super) fn run(args: &Bench) -> anyhow::Result<ExitCode> {
    let mut measured = measure_all()?;
    for _ in 1..ROUNDS {
        if args.check && measured.iter().any(is_over) {
            for (best, again) in measured.iter_mut().zip(measure_all()?) {
                if again.median_s < best.median_s {
                    *best = again;
                }
            }
        }
    }
    if args.json {
        let medians: Map<String, Value> =
            measured.iter().map(|m| (m.name.to_owned(), json!(m.median_s))).collect();
        writeln!(io::stdout(), "{:#}", Value::Object(medians))?;
    } else {
        write!(io::stdout(), "{}", table(&measured))?;
    }
    let over: Vec<_> = measured.iter().filter(|m| is_over(m)).collect();
    if args.check {
        for m in &over {
            eprintln!("{}: {} is over its budget", m.name, seconds(m.median_s));
        }
    }
    Ok(ExitCode::from(u8::from(args.check && !over.is_empty())))
}

/// - `trace_*`: interpreter and allocator of one steady step of a process that has run its first;
/// - `trace_*_history`: the same from the process's beginning: construction, first and steady step;
/// - `trace_405b_tp8_pp16`: the same of one rank of Megatron-core's, the pipeline's first, whose activations
///   are the most;
/// - `summary_405b_tp8_pp16`: the peak of live bytes of all its stages, without a replay;
/// - `fold_*`: the peak of live bytes from a few layers;
/// - `simulate_*`: the whole answer, clock and report included.
fn measure_all() -> anyhow::Result<Vec<Measured>> {
    let catalog = roomy(Catalog::builtin());
    let llama_8b = valid("llama-3-8b", 4096, &catalog)?;
    let llama_405b = valid("llama-3.1-405b", 4096, &catalog)?;
    let gpt2 = valid("gpt2", 1024, &catalog)?;
    let mut process_8b = Prepared::new(&llama_8b);
    let mut process_405b = Prepared::new(&llama_405b);
    let rank = megatron_405b(&catalog)?;
    let mut process_rank = Prepared::new(&rank);
    Ok(Vec::from([
        measure("trace_llama3_8b", || process_8b.steady_step()),
        measure("trace_llama3_8b_history", || Prepared::new(&llama_8b).steady_step()),
        measure("trace_llama3_405b", || process_405b.steady_step()),
        measure("trace_405b_tp8_pp16", || process_rank.steady_step()),
        measure("summary_405b_tp8_pp16", || stages(&rank)),
        measure("fold_llama3_405b", || folded(&llama_405b)),
        measure("simulate_llama3_8b", || simulate(&llama_8b)),
        measure("simulate_gpt2", || simulate(&gpt2)),
        measure("catalog_parse", Catalog::builtin),
    ]))
}

/// The catalog's first GPU with room for anything: a benchmark must not stop at out of memory.
fn roomy(mut catalog: Catalog) -> Catalog {
    if let Some(mut gpu) = catalog.gpus.first().cloned() {
        PRETENDED.clone_into(&mut gpu.id);
        gpu.usable_mib = 1 << 30;
        catalog.gpus.push(gpu);
    }
    catalog
}

const PRETENDED: &str = "pretended";

fn valid(model: &str, seq_len: u64, catalog: &Catalog) -> anyhow::Result<ValidScenario> {
    let document = json!({
        "version": 1,
        "model": {"id": model},
        "hardware": {"gpu": PRETENDED},
        "workload": {"micro_batch": 1, "seq_len": seq_len},
    });
    Ok(scenario::check(&document, catalog)?)
}

/// Llama 3.1 405B under Megatron-core with tensor parallelism 8, pipeline 16, 1F1B over 64 micro-batches.
/// Megatron-core wants as many layers in each stage: 128, of which its users leave out the first and the
/// last.
fn megatron_405b(catalog: &Catalog) -> anyhow::Result<ValidScenario> {
    let document = json!({
        "version": 1,
        "model": {"kind": "megatron_gpt", "config": {
            "num_layers": 128, "hidden_size": 16384, "ffn_hidden_size": 53248,
            "num_attention_heads": 128, "num_query_groups": 8, "vocab_size": 128_256,
            "max_sequence_length": 8192, "position_embedding_type": "rope",
            "normalization": "RMSNorm", "gated_linear_unit": true, "activation_func": "silu",
            "add_bias_linear": false, "hidden_dropout": 0.0, "attention_dropout": 0.0,
            "bias_activation_fusion": true, "bias_dropout_fusion": true,
        }},
        "hardware": {"gpu": PRETENDED, "count": 128},
        "workload": {"micro_batch": 1, "seq_len": 8192, "grad_accum": 64},
        "parallel": {"tensor": 8, "sequence": true, "pipeline": 16},
        "checkpointing": "selective",
        "stack": {"framework": "megatron_core"},
    });
    Ok(scenario::check(&document, catalog)?)
}

/// The median over many runs.
fn measure<T>(name: &'static str, mut work: impl FnMut() -> T) -> Measured {
    let warm = Instant::now();
    while warm.elapsed() < WARM_UP {
        black_box(work());
    }
    let mut times = Vec::new();
    let begun = Instant::now();
    while times.len() < RUNS_MIN || (times.len() < RUNS_MAX && begun.elapsed() < MEASURE) {
        let started = Instant::now();
        let result = black_box(work());
        times.push(started.elapsed());
        // Giving the memory back is not part of the answer.
        drop(result);
    }
    times.sort();
    Measured { name, median_s: times[times.len() / 2].as_secs_f64(), runs: times.len() }
}

fn budget(name: &str) -> Option<f64> {
    BUDGETS.iter().find(|(of, _)| *of == name).map(|(_, budget)| *budget)
}

fn is_over(measured: &Measured) -> bool {
    budget(measured.name).is_some_and(|budget| budget < measured.median_s)
}

fn table(measured: &[Measured]) -> Table<5> {
    let mut table = Table::new([
        (Side::Left, "benchmark"),
        (Side::Right, "median"),
        (Side::Right, "budget"),
        (Side::Right, "runs"),
        (Side::Left, ""),
    ]);
    for m in measured {
        table.row([
            m.name.to_owned(),
            seconds(m.median_s),
            budget(m.name).map(seconds).unwrap_or_default(),
            m.runs.to_string(),
            if is_over(m) { "over" } else { "" }.to_owned(),
        ]);
    }
    table
}
