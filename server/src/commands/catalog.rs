//! `tidemark models`, `tidemark gpus`: what a scenario can name.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::json;
use simulator::catalog::Catalog;

use crate::cli::List;
use crate::output::format::thousands;
use crate::output::table::{Side, Table};

pub(super) fn models(args: &List) -> anyhow::Result<ExitCode> {
    let Catalog { models, .. } = Catalog::builtin();
    if args.json {
        return json_list(&json!({ "models": models }));
    }
    let mut table = Table::new([
        (Side::Left, "id"),
        (Side::Left, "name"),
        (Side::Left, "class"),
        (Side::Right, "parameters"),
    ]);
    for model in models {
        let parameters = model.published_parameters.map(thousands).unwrap_or_default();
        table.row([model.id, model.name, model.kind.word().to_owned(), parameters]);
    }
    write!(io::stdout(), "{table}")?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn gpus(args: &List) -> anyhow::Result<ExitCode> {
    let Catalog { gpus, .. } = Catalog::builtin();
    if args.json {
        return json_list(&json!({ "gpus": gpus }));
    }
    let mut table = Table::new([
        (Side::Left, "id"),
        (Side::Left, "name"),
        (Side::Right, "memory"),
        (Side::Right, "usable"),
        (Side::Right, "bandwidth"),
        (Side::Right, "bf16"),
        (Side::Left, "compared with"),
    ]);
    for gpu in gpus {
        table.row([
            gpu.id,
            gpu.name,
            format!("{} GB", gpu.memory_gb),
            format!("{} MiB", thousands(gpu.usable_mib)),
            format!("{} GB/s", gpu.memory_bandwidth_gbps),
            gpu.bf16_tflops.map(|rate| format!("{rate} TFLOP/s")).unwrap_or_default(),
            if gpu.measured { "measured runs" } else { "nothing yet" }.to_owned(),
        ]);
    }
    write!(io::stdout(), "{table}")?;
    Ok(ExitCode::SUCCESS)
}

fn json_list(list: &serde_json::Value) -> anyhow::Result<ExitCode> {
    writeln!(io::stdout(), "{list:#}")?;
    Ok(ExitCode::SUCCESS)
}
