//! `cargo xtask`: the command line of the chores.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use xtask::shell::Workspace;
use xtask::{bundle, chores, stages, tidy};

const HELP: &str = "\
cargo xtask <chore>

  serve [--port N] [--data DIR]   build page and server, run them on loopback
  build                           one release binary with the page inside
  test [--only STAGE,…]           everything; `--list` names the stages
  tidy                            the rules of the house alone
  bundle                          the page alone, into target/bundle
  accuracy [--check]              write docs/accuracy.md from the ground truth
  bench [ARGUMENTS]               `tidemark bench`, optimised
";

fn main() -> ExitCode {
    match dispatch(std::env::args().skip(1).collect()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(mut args: Vec<String>) -> Result<ExitCode> {
    if args.is_empty() || args.iter().any(|a| a == "--help" || a == "-h") {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let workspace = Workspace::find()?;
    let chore = args.remove(0);
    match chore.as_str() {
        "serve" => {
            let port = take_value(&mut args, "--port")?;
            let data = take_value(&mut args, "--data")?;
            none_left(&args)?;
            chores::serve(&workspace, port.as_deref(), data.as_deref())?;
        }
        "build" => none_left(&args).and_then(|()| chores::build(&workspace))?,
        "bundle" => none_left(&args).and_then(|()| bundle::build(&workspace).map(drop))?,
        "test" => {
            let list = take_flag(&mut args, "--list");
            let only = take_value(&mut args, "--only")?;
            none_left(&args)?;
            return if list {
                Ok(stages::list())
            } else {
                stages::run(&workspace, only.as_deref())
            };
        }
        "tidy" => none_left(&args).and_then(|()| tidy::run(&workspace))?,
        "accuracy" => {
            let check = take_flag(&mut args, "--check");
            none_left(&args)?;
            chores::accuracy(&workspace, check)?;
        }
        "bench" => chores::bench(&workspace, &args)?,
        other => bail!("no such chore: {other}\n\n{HELP}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn take_flag(args: &mut Vec<String>, name: &str) -> bool {
    let before = args.len();
    args.retain(|arg| arg != name);
    args.len() < before
}

/// The value of `--name VALUE` or `--name=VALUE`, taken out of the arguments.
fn take_value(args: &mut Vec<String>, name: &str) -> Result<Option<String>> {
    let with_equals = format!("{name}=");
    let Some(at) = args.iter().position(|a| a == name || a.starts_with(&with_equals)) else {
        return Ok(None);
    };
    let arg = args.remove(at);
    if let Some(value) = arg.strip_prefix(&with_equals) {
        return Ok(Some(value.to_owned()));
    }
    if at == args.len() {
        return None.with_context(|| format!("{name} needs a value"));
    }
    Ok(Some(args.remove(at)))
}

fn none_left(args: &[String]) -> Result<()> {
    match args.first() {
        Some(arg) => bail!("unknown argument: {arg}\n\n{HELP}"),
        None => Ok(()),
    }
}
