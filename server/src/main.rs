//! Parses the command line, runs the command, turns the outcome into an exit code.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use server::cli::Cli;
use server::commands;

fn main() -> ExitCode {
    let cli = Cli::parse();
    commands::run(cli.command).unwrap_or_else(|error| commands::report(&error))
}
