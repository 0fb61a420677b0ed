//! The built binary: exit codes, faults, formats, and a server that starts and stops.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const TIDEMARK: &str = env!("CARGO_BIN_EXE_tidemark");
const GPT2: &str = "simulate --model gpt2 --gpu h100-sxm --micro-batch 2 --seq-len 256";
const PATIENCE: Duration = Duration::from_secs(20);

struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

fn run(arguments: &str, stdin: &str) -> Ran {
    let mut child = Command::new(TIDEMARK)
        .args(arguments.split_whitespace().map(|argument| argument.replace('~', " ")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: status.code().unwrap(), stdout: text(stdout), stderr: text(stderr) }
}

/// Runs and compares the exit code; the outputs must hold these parts. A tilde in an argument
/// stands for a space.
fn check(arguments: &str, stdin: &str, code: i32, parts: &[&str]) -> Ran {
    let ran = run(arguments, stdin);
    let all = format!("{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.code, code, "{arguments}: {all}");
    for part in parts {
        assert!(all.contains(part), "{arguments}: no {part:?} in {all}");
    }
    ran
}

#[test]
fn a_model_without_sequences_needs_no_length() {
    for model in ["resnet-50", "vit-base-patch16-224", "bert-large-uncased"] {
        check(&format!("simulate --model {model} --gpu h200-sxm"), "", 0, &["Fits"]);
    }
    let flags = "--compile --attention flash_attention_2";
    let faults = ["stack.attention"];
    check(&format!("simulate --model gpt2 --gpu h200-sxm {flags}"), "", 2, &faults);
}

#[test]
fn a_folder_without_runs_is_no_success() {
    let folder = tempfile::TempDir::new().unwrap();
    check(&format!("accuracy {}", folder.path().display()), "", 2, &["no captures"]);
}

const SCENARIO: &str = r#"
version = 1
model = { id = "gpt2" }
hardware = { gpu = "h100-sxm" }
workload = { micro_batch = 2, seq_len = 256 }
"#;

#[test]
fn help_names_everything() {
    let commands = ["simulate", "accuracy", "scenario", "models", "gpus", "bench", "serve"];
    check("--help", "", 0, &commands);
    check(
        "simulate --help",
        "",
        0,
        &["Exit codes", "too close to call", "amp_bf16", "--alloc-conf"],
    );
    check("serve --help", "", 0, &["--port", "7070", "--token", "DATABASE_URL"]);
    check("--version", "", 0, &[env!("CARGO_PKG_VERSION")]);
    check("", "", 2, &["Usage"]);
}

#[test]
fn answers_are_read_by_people_and_programs() {
    let parts = ["GiB", "At the peak of the", "Largest tensors", "Phases", "First and steady"];
    check(GPT2, "", 0, &parts);
    let report = check(&format!("{GPT2} --json"), "", 0, &[]).stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["scenario"]["workload"]["seq_len"], 256);
    assert_eq!(report["verdict"]["outcome"], "fits");
    let timeline = check(&format!("{GPT2} --format timeline-json --step first"), "", 0, &[]).stdout;
    assert!(serde_json::from_str::<Value>(&timeline).unwrap()["tensors"]["bytes"].is_array());
}

#[test]
fn other_tools_get_their_formats() {
    let folder = tempfile::TempDir::new().unwrap();
    for (format, begins) in [
        ("chrome-trace", b"{\"".as_slice()),
        ("snapshot", b"\x80".as_slice()),
        ("csv", b"#".as_slice()),
    ] {
        let file = folder.path().join(format);
        let arguments = format!("{GPT2} --format {format} --output {}", file.display());
        assert_eq!(check(&arguments, "", 0, &[]).stdout, "");
        let written = std::fs::read(&file).unwrap();
        assert!(written.starts_with(begins), "{format}: {:?}", &written[..written.len().min(40)]);
    }
    let nowhere = folder.path().join("no/such/folder");
    check(&format!("{GPT2} --output {}", nowhere.display()), "", 2, &["cannot be written"]);
}

#[test]
fn exit_codes_say_the_verdict() {
    check("simulate --model llama-3.1-8b --gpu rtx-4090", "", 1, &["Does not fit", "too much"]);
    // Whatever was to spare is in use already: the limit lies within the band.
    let report = check(&format!("{GPT2} --json"), "", 0, &[]).stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let margin = report["verdict"]["margin_bytes"].as_u64().unwrap();
    check(&format!("{GPT2} --already-used {margin}"), "", 3, &["Too close to call"]);
}

#[test]
fn flags_override_the_file() {
    for (flags, pointer, expected) in [
        ("", "/workload/micro_batch", "2"),
        ("--micro-batch 3", "/workload/micro_batch", "3"),
        ("--grad-accum 4", "/workload/grad_accum", "4"),
        ("--model gpt2-medium", "/model/id", "\"gpt2-medium\""),
        ("--gpu a100-sxm-80gb", "/hardware/gpu", "\"a100-sxm-80gb\""),
        ("--already-used 2~GiB", "/hardware/already_used_bytes", "2147483648"),
        ("--process-cap 40GiB", "/hardware/process_cap_bytes", "42949672960"),
        ("--optimizer sgd --momentum 0.9", "/optimizer/momentum", "0.9"),
        ("--implementation fused", "/optimizer/implementation", "\"fused\""),
        ("--clip", "/optimizer/clip_grad_norm", "true"),
        ("--precision fp32 --tf32", "/stack/tf32", "true"),
        ("--loss fused_linear", "/stack/loss", "\"fused_linear\""),
        (
            "--alloc-conf expandable_segments:True",
            "/stack/alloc_conf",
            "\"expandable_segments:True\"",
        ),
    ] {
        let ran = run(&format!("simulate - --json {flags}"), SCENARIO);
        assert_ne!(ran.code, 2, "{flags}: {}", ran.stderr);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let got = report["scenario"].pointer(pointer).map(Value::to_string);
        assert_eq!(got.as_deref(), Some(expected), "{flags}");
    }
}

#[test]
fn bad_input_names_every_fault() {
    let three = SCENARIO.replace("= 2,", "= 0,").replace("256", "\"long\"");
    let ran = check("simulate -", &format!("precision = \"fp7\"\n{three}"), 2, &[]);
    assert_eq!(ran.stdout, "");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    for path in ["workload.micro_batch: ", "workload.seq_len: ", "precision: "] {
        let matching = lines.iter().filter(|line| line.starts_with(path)).count();
        assert_eq!(matching, 1, "{path}: {lines:?}");
    }
    for (arguments, stdin, part) in [
        ("simulate --model gpt2", "", "hardware"),
        ("simulate --model gtp2 --gpu h100-sxm", "", "gpt2"),
        ("simulate no-such-file.toml", "", "no-such-file.toml cannot be read"),
        ("simulate --config no-such.json --gpu h100-sxm", "", "no-such.json cannot be read"),
        ("simulate -", "version = ", "TOML"),
        ("simulate -", "{", "JSON"),
        ("simulate --model gpt2 --gpu h100-sxm --precision fp7", "", "amp_bf16"),
        ("simulate --model gpt2 --gpu h100-sxm --already-used lots", "", "2 GiB"),
        ("simulate --model gpt2 --config x.json", "", "cannot be used with"),
        ("scenario check -", "version = 99", "version"),
    ] {
        check(arguments, stdin, 2, &[part]);
    }
}

#[test]
fn scenarios_are_checked() {
    check("scenario check -", SCENARIO, 0, &["no faults"]);
}

#[test]
fn catalogs_are_listed() {
    for (arguments, part) in [("models", "llama-3.2-1b"), ("gpus", "h100-sxm")] {
        check(arguments, "", 0, &[part]);
        let list = check(&format!("{arguments} --json"), "", 0, &[]).stdout;
        let list: Value = serde_json::from_str(&list).unwrap();
        let entries = list[arguments].as_array().unwrap();
        assert!(entries.iter().any(|entry| entry["id"] == part));
    }
}

#[test]
fn a_server_starts_answers_and_stops() {
    let folder = tempfile::TempDir::new().unwrap();
    let mut child = Command::new(TIDEMARK)
        .args(["serve", "--port", "0", "--data"])
        .arg(folder.path().join("data"))
        .env_remove("DATABASE_URL")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address =
        line.trim().strip_prefix("Tidemark: http://").unwrap_or_else(|| panic!("{line:?}"));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"ok\""), "{answer}");
    assert!(folder.path().join("data/tidemark.db").exists());

    let asked = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(asked.success());
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(begun.elapsed() < PATIENCE, "the server does not stop");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(0));
}
