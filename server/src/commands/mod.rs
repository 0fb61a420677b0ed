//! One file for each command; [`run`] chooses.

mod accuracy;
mod bench;
mod catalog;
mod input;
mod scenario;
mod serve;
mod simulate;

use std::io;
use std::process::ExitCode;

use simulator::wire::Faults;

use crate::cli::Command;

/// Bad input: a file, a field, a flag. Clap uses the same code.
const BAD_INPUT: u8 = 2;

/// Runs a command.
///
/// # Errors
///
/// Bad input, or what the system refused; [`report`] prints it.
pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Simulate(args) => simulate::run(&args),
        Command::Scenario(args) => scenario::run(&args),
        Command::Models(args) => catalog::models(&args),
        Command::Gpus(args) => catalog::gpus(&args),
        Command::Accuracy(args) => accuracy::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Serve(args) => serve::run(&args),
    }
}

/// Prints an error on standard error: all faults, one a line, or the chain of causes.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(faults) = error.downcast_ref::<Faults>() {
        eprintln!("{faults}");
    } else if is_broken_pipe(error) {
        // Whoever read our output has seen enough.
        return ExitCode::SUCCESS;
    } else {
        eprintln!("tidemark: {error:#}");
    }
    ExitCode::from(BAD_INPUT)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(is)
}
