//! Predictions against captures: the limits that the project holds itself to, on the single-GPU
//! training captures of each family and on those of one rank of several.

use conformance::cases;
use simulator::accuracy::{
    Head, Kind, Limits, MetricName, Row, Setup, Side, Status, compare, family, judge_published,
    predict, summarize,
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
            Row::ok(head(capture), compare(&simulation, capture))
        })
        .collect();
    hold(prefixes, &rows, max, min);
}

fn head(capture: &CaseCapture) -> Head {
    Head {
        id: capture.id.clone(),
        kind: Kind::Case,
        family: family(&capture.case),
        stack: capture.stack.clone(),
    }
}

/// Holds rows to limits.
fn hold(prefixes: &[&str], rows: &[Row], max: &[&str], min: &[&str]) {
    let summary = summarize(rows);
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
    check_where(wanted, &["gpt2xl-ddp"], &max, &MIN);
    // One segment is much of so small a process.
    max[1] = "reserved_peak:median=0.01,worst=4";
    check_where(wanted, &["small-"], &max, &MIN);
}

/// One rank of several: `fully_shard`.
#[test]
fn shards() {
    let wanted = |capture: &CaseCapture| capture.id.contains("-fsdp");
    check_where(wanted, &["llama"], &MAX, &MIN);
    let mut max = MAX;
    max[1] = "reserved_peak:median=0.01,worst=0.5";
    check_where(wanted, &["small-"], &max, &MIN);
}

/// One rank of several: `DeepSpeed`'s stages.
#[test]
fn stages() {
    let wanted = |capture: &CaseCapture| capture.id.contains("-zero");
    let max = [
        "allocated_peak:median=0.001,worst=0.002",
        "reserved_peak:median=0.001,worst=0.2",
        "curve_gap_pct:median=0.5,worst=1.5",
    ];
    check_where(wanted, &["small-"], &max, &MIN);
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
        "allocated_peak:median=0.1,worst=0.16",
        "reserved_peak:median=0.01,worst=0.05",
        "curve_gap_pct:median=0.15,worst=0.2",
    ];
    check_where(wanted, &["llama8b-tp", "small-"], &max, &MIN);
}

/// Sizes, order and lifetimes are exact but for cuDNN's workspaces, which follow a rule.
#[test]
fn image_networks() {
    let max = [
        "allocated_peak:median=0.2,worst=1.5",
        "reserved_peak:median=1.5,worst=10",
        "curve_gap_pct:median=0.5,worst=0.8",
        "step_time:median=20,worst=35",
    ];
    let min = ["events_matched_pct:median=85,worst=80"];
    let networks = ["resnet", "densenet", "efficientnet", "mobilenet", "vgg"];
    check(&networks, &max, &min);
}

#[test]
fn small_image_networks() {
    let max = [
        "allocated_peak:median=0.5,worst=4",
        "reserved_peak:median=4,worst=25",
        "curve_gap_pct:median=0.5,worst=3",
    ];
    let networks = ["resn", "wrn", "mobilenet", "eff", "densenet", "convnext", "regnet", "vgg"]
        .map(|n| format!("small-{n}"));
    let networks: Vec<&str> = networks.iter().map(String::as_str).collect();
    check(&networks, &max, &["events_matched_pct:median=88,worst=75"]);
}

/// Errors of published training runs that name their kind of memory and are sure of their shape: how
/// many are predicted, the median, and what nine in ten stay below. Allocated and reserved memory are
/// held to 5 % and 15 %; what a driver showed is held apart, in whole gigabytes under
/// Megatron-DeepSpeed (tests/published/README.md).
#[test]
fn published_runs() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/published/runs.jsonl"));
    let text = text.expect("the rows are there");
    let catalog = Catalog::builtin();
    let setup = Setup { catalog: &catalog, rates: Rates::Best };
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| {
            let row: serde_json::Value = serde_json::from_str(line).expect("a row");
            let is = |key: &str, words: &[&str]| words.iter().any(|word| row[key] == *word);
            is("kind", &["train", "finetune"])
                && is("confidence", &["high", "medium"])
                && !row["memory_metric"].is_null()
        })
        .collect();
    // Neighbours are alike: both threads get some of each.
    let half = |first: usize| -> Vec<Row> {
        let own = lines.iter().skip(first).step_by(2);
        own.map(|line| judge_published("row", line, setup)).collect()
    };
    let rows: Vec<Row> = std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        let mut rows = half(0);
        rows.extend(other.join().expect("no row panics"));
        rows
    });
    assert_eq!(rows.len(), 255);
    let predicted = rows.iter().filter(|row| row.status == Status::Ok).count();
    assert!(182 <= predicted, "{predicted} rows are predicted");
    let check = |names: &[MetricName], deepspeed: bool, median: f64, most: f64| {
        let rows = rows.iter().filter(|row| (row.family == "megatron-deepspeed") == deepspeed);
        let mut errors: Vec<f64> = rows
            .flat_map(|row| names.iter().filter_map(|name| row.metrics.get(name)?.error_pct))
            .map(f64::abs)
            .collect();
        errors.sort_by(f64::total_cmp);
        let [middle, nine] = [errors[errors.len() / 2], errors[errors.len() * 9 / 10]];
        assert!(middle <= median && nine <= most, "{names:?}: {middle}, {nine}");
    };
    check(&[MetricName::AllocatedPeak, MetricName::ReservedPeak], false, 5.0, 15.0);
    check(&[MetricName::DevicePeak], false, 5.0, 15.0);
    check(&[MetricName::DevicePeak], true, 6.0, 20.0);
    let large = |row: &&Row| {
        let is_large =
            |name| row.metrics.get(&name).and_then(|m| m.error_pct).is_some_and(|e| 15.0 < e.abs());
        [MetricName::AllocatedPeak, MetricName::ReservedPeak, MetricName::DevicePeak]
            .into_iter()
            .any(is_large)
    };
    for row in rows.iter().filter(large) {
        assert!(row.reason.is_some(), "{} says why it is missed", row.id);
    }
}

#[test]
fn metrics_have_the_words_of_the_contract() {
    for word in ["allocated_peak", "reserved_peak", "device_peak", "step_time", "forward_time"] {
        assert!(MetricName::from_word(word).is_some(), "{word}");
    }
}

/// Holds ranks of Megatron-core jobs to limits. Their parameters are counted on the rank.
fn check_ranks(prefixes: &[&str], max: &[&str], min: &[&str]) {
    let catalog = Catalog::builtin();
    let setup = Setup { catalog: &catalog, rates: Rates::Best };
    let rows: Vec<Row> = cases(prefixes)
        .iter()
        .map(|capture| {
            let simulation = predict(capture, setup)
                .unwrap_or_else(|faults| panic!("{}: {faults:?}", capture.id));
            let model = &simulation.report.model;
            let parameters = Some(model.rank_parameters.unwrap_or(model.parameters));
            assert_eq!(parameters, capture.params.local, "{}: parameters", capture.id);
            Row::ok(head(capture), compare(&simulation, capture))
        })
        .collect();
    hold(prefixes, &rows, max, min);
}

/// The random loads of `mg-moe-ep8`'s experts are not the even ones that a scenario assumes.
#[test]
fn megatron() {
    let max = ["allocated_peak:median=0.001,worst=0.05", "reserved_peak:median=0.1,worst=3"];
    check_ranks(
        &["mg-gpt", "mg-llama", "mg-moe"],
        &max,
        &["events_matched_pct:median=99.5,worst=90"],
    );
    // Taken afterwards; of sixteen experts four are a rank's, so that its load differs more.
    check_ranks(&["mg-small"], &max, &["events_matched_pct:median=99,worst=65"]);
}
