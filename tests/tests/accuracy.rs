//! Predictions against captures: the limits that the project holds itself to, on the single-GPU
//! training captures of each family and on those of one rank of several.

use conformance::cases;
use simulator::accuracy::{
    Head, Kind, Limits, MetricName, Row, Setup, Side, compare, family, predict, summarize,
};
use simulator::catalog::Catalog;
use simulator::simulate::Rates;
use simulator::wire::capture::CaseCapture;

/// What no capture on one GPU may have.
const OTHER: [&str; 4] = ["compile", "parallel", "world", "mode"];

fn is_plain_training(capture: &CaseCapture) -> bool {
    OTHER.iter().all(|key| !capture.case.contains_key(*key))
}

/// Holds the captures of a family to limits, `--max` and `--min` of the command line.
fn check(prefixes: &[&str], max: &[&str], min: &[&str]) {
    check_where(is_plain_training, prefixes, max, min);
}

fn check_where(
    wanted: impl Fn(&CaseCapture) -> bool,
    prefixes: &[&str],
    max: &[&str],
    min: &[&str],
) {
    let catalog = Catalog::builtin();
    let setup = Setup { catalog: &catalog, rates: Rates::Best };
    let captures = cases(prefixes);
    let rows: Vec<Row> = captures
        .iter()
        .filter(|capture| wanted(capture))
        .map(|capture| {
            let simulation = predict(capture, setup).expect("a plain capture is supported");
            let model = &simulation.report.model;
            let local = model.rank_parameters.unwrap_or(model.parameters);
            let counts = [
                ("parameters", capture.params.total, Some(model.parameters)),
                ("trainable parameters", capture.params.trainable, model.trainable_parameters),
                ("parameters of the rank", capture.params.local, Some(local)),
            ];
            for (what, measured, predicted) in counts {
                assert!(measured.is_none() || measured == predicted, "{}: {what}", capture.id);
            }
            let head = Head {
                id: capture.id.clone(),
                kind: Kind::Case,
                family: family(&capture.case),
                stack: capture.stack.clone(),
            };
            Row::ok(head, compare(&simulation, capture))
        })
        .collect();
    let summary = summarize(&rows);
    let sides = max.iter().map(|text| (Side::Max, text));
    let sides = sides.chain(min.iter().map(|text| (Side::Min, text)));
    for (side, text) in sides {
        for limit in Limits::parse(side, text).expect("a limit").0 {
            let checked = limit.check(&summary);
            let spread = summary.overall.get(&limit.metric);
            assert!(checked.holds, "{prefixes:?} {text}: {spread:?}");
        }
    }
}

/// Bytes do not depend on the clock, so they are held as tightly as the interpreter is exact. The
/// rest is where blocks lie: the driver's addresses are not ours.
const MAX: [&str; 3] = [
    "allocated_peak:median=0.001,worst=0.01",
    "reserved_peak:median=0.01,worst=0.05",
    "curve_gap_pct:median=0.1,worst=0.2",
];
const MIN: [&str; 1] = ["events_matched_pct:worst=100"];

#[test]
fn llama() {
    check(&["llama"], &MAX, &MIN);
}

#[test]
fn gpt2() {
    check(&["gpt2"], &MAX, &MIN);
}

#[test]
fn bert() {
    check(&["bertl"], &MAX, &MIN);
}

#[test]
fn opt() {
    check(&["opt350"], &MAX, &MIN);
}

#[test]
fn vit() {
    check(&["vitl"], &MAX, &MIN);
}

#[test]
fn t5() {
    check(&["t5l"], &MAX, &MIN);
    let max = ["allocated_peak:worst=0.01", "reserved_peak:worst=0.05", "curve_gap_pct:worst=0.2"];
    check(&["small-t5"], &max, &MIN);
}

#[test]
fn qwen() {
    check(&["qwen05", "qwen3-"], &MAX, &MIN);
}

#[test]
fn mixtures() {
    check(&["mixs", "qwen3moe"], &MAX, &MIN);
    // A few blocks are larger than what was asked for, and others than the driver's addresses chose.
    let max = ["allocated_peak:worst=0.02", "reserved_peak:worst=0.1", "curve_gap_pct:worst=0.1"];
    check(&["dsv3s"], &max, &MIN);
}

#[test]
fn gemma() {
    check(&["gemma3-1b"], &MAX, &MIN);
}

/// One segment more or less is much of so small a process.
#[test]
fn small_models() {
    let max = [
        "allocated_peak:median=0.01,worst=0.2",
        "reserved_peak:median=0.1,p95=0.5,worst=7",
        "curve_gap_pct:median=0.1,worst=0.2",
    ];
    let classes = ["small-llama", "small-gpt2", "small-qwen2", "small-qwen3-", "small-mistral"];
    check(&classes, &max, &MIN);
}

/// A segment of the steps before is one more in one of them.
#[test]
fn small_decoders() {
    let max = [
        "allocated_peak:median=0.001,worst=0.2",
        "reserved_peak:median=0.1,worst=5",
        "curve_gap_pct:median=0.1,worst=0.3",
    ];
    check(&["small-gemma", "small-phi3"], &max, &MIN);
}

#[test]
fn optimizers() {
    let max = [
        "allocated_peak:median=0.1,worst=0.3",
        "reserved_peak:median=0.1,worst=0.1",
        "curve_gap_pct:median=0.1,worst=0.3",
    ];
    check(&["small-adafactor", "small-rmsprop"], &max, &MIN);
}

/// Taken after the families were written, and predicted without a change. In one of them cuDNN needs no
/// workspace where the rule gives it one.
#[test]
fn small_models_of_other_families() {
    let max = [
        "allocated_peak:median=0.05,worst=0.3",
        "reserved_peak:median=0.1,worst=5",
        "curve_gap_pct:median=0.15,worst=0.5",
    ];
    let families = ["bert", "roberta", "opt", "vit", "mixtral", "qwen3moe", "dsv3", "lora"]
        .map(|f| format!("small-{f}"));
    let families: Vec<&str> = families.iter().map(String::as_str).collect();
    check(&families, &max, &["events_matched_pct:median=100,worst=99"]);
}

/// One rank of several: `DistributedDataParallel`.
#[test]
fn buckets() {
    let wanted = |capture: &CaseCapture| capture.id.contains("-ddp");
    let mut max = MAX;
    max[0] = "allocated_peak:median=0.001,worst=0.05";
    check_where(wanted, &["gpt2xl-ddp", "small-ddp"], &max, &MIN);
}

/// One rank of several: `fully_shard`.
#[test]
fn shards() {
    let wanted = |capture: &CaseCapture| capture.id.contains("-fsdp");
    check_where(wanted, &["llama", "small-fsdp"], &MAX, &MIN);
}

/// Under `torch.compile`: groups of fused operations stand for inductor's kernels.
#[test]
fn compiled() {
    let max = ["allocated_peak:median=1,worst=10", "reserved_peak:median=8,worst=20"];
    check_where(
        |capture| capture.case.contains_key("compile"),
        &["llama1b-bf16-compile", "small-compile"],
        &max,
        &[],
    );
}

/// One rank of several: `parallelize_module`. What construction leaves free lies at other addresses.
#[test]
fn columns_and_rows() {
    let wanted = |capture: &CaseCapture| capture.id.contains("-tp");
    let max = [
        "allocated_peak:median=0.05,worst=0.16",
        "reserved_peak:median=0.01,worst=0.05",
        "curve_gap_pct:median=0.15,worst=0.2",
    ];
    check_where(wanted, &["llama8b-tp", "small-tp"], &max, &MIN);
}

#[test]
fn metrics_have_the_words_of_the_contract() {
    for word in ["allocated_peak", "reserved_peak", "device_peak", "step_time", "forward_time"] {
        assert!(MetricName::from_word(word).is_some(), "{word}");
    }
}
