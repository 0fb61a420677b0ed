//! A published run against its prediction: what of it can be expressed, and which of its numbers
//! can be compared.

mod deepspeed;
mod megatron;
mod model;
mod scenario;
mod tools;
mod words;

use crate::scenario::validate;
use crate::simulate::{Simulation, simulate_with};
use crate::units::{Bytes, GIB};
use crate::wire::published::{PublishedRun, read_run};

use super::judge::{Setup, in_one_line};
use super::metric::{Metric, MetricName, Metrics};
use super::row::{Head, Kind, Row, Status};
use scenario::Expressed;

/// Errors of memory above which a row says why, per cent.
const LARGE_PCT: f64 = 15.0;

/// A row from one line of `runs.jsonl`. `name` stands in for the id of a line that cannot be read.
pub fn judge_published(name: &str, line: &str, setup: Setup<'_>) -> Row {
    let run = match read_run(line) {
        Ok(run) => run,
        Err(faults) => return Row::invalid(name, Kind::Published, in_one_line(&faults)),
    };
    let head = Head {
        id: run.id.clone(),
        kind: Kind::Published,
        family: words::family(&run.framework),
        stack: run.framework.clone(),
    };
    let Expressed { scenario, stages, remark } = match scenario::express(&run, setup.catalog) {
        Ok(expressed) => expressed,
        Err(reasons) => return Row::unsupported(head, reasons.join("; ")),
    };
    let tokens = scenario.workload.micro_batch * scenario.workload.grad_accum;
    let tokens = Bytes::new(tokens * scenario.workload.seq_len).as_f64();
    let mut metrics = Metrics::new();
    for stage in stages {
        let mut scenario = scenario.clone();
        scenario.parallel.stage = stage;
        let valid = match validate(&scenario, setup.catalog) {
            Ok(valid) => valid,
            Err(faults) => return Row::unsupported(head, in_one_line(&faults)),
        };
        let of_stage = compare(&run, &simulate_with(&valid, setup.rates), tokens);
        keep_highest(&mut metrics, of_stage);
    }
    if metrics.is_empty() {
        return Row::unsupported(head, "the row has no number that can be compared");
    }
    let off = |metric: &Metric| metric.error_pct.is_some_and(|error| LARGE_PCT < error.abs());
    let memory = metrics.iter().filter(|(name, _)| **name != MetricName::StepTime);
    let miss = memory.map(|(_, metric)| metric).any(off).then(|| words::known_miss(&run.id));
    let said = remark.into_iter().chain(miss.flatten().map(str::to_owned));
    let remark = said.reduce(|all, one| format!("{all}; {one}"));
    Row { reason: remark, status: Status::Ok, ..Row::ok(head, metrics) }
}

/// The figures of the stage with the highest ones: a row gives the highest of several ranks.
fn keep_highest(metrics: &mut Metrics, others: Metrics) {
    for (name, metric) in others {
        let higher = metrics.get(&name).is_none_or(|known| known.predicted < metric.predicted);
        if higher {
            metrics.insert(name, metric);
        }
    }
}

/// Memory in the sense that the row names, and the step's time where it is one of full sequences.
fn compare(run: &PublishedRun, simulation: &Simulation, tokens_per_step: f64) -> Metrics {
    let report = &simulation.report;
    let measured = &run.measured;
    let mut metrics = Metrics::new();
    let bytes = |gib: f64| gib * Bytes::new(GIB).as_f64();
    let allocated = report.first.peak_allocated_bytes.max(report.steady.peak_allocated_bytes);
    let reserved = report.first.peak_reserved_bytes.max(report.steady.peak_reserved_bytes);
    if let Some(gib) = measured.peak_reserved_gib {
        let metric = Metric::against(reserved.as_f64(), bytes(gib));
        metrics.insert(MetricName::ReservedPeak, metric);
    }
    let named = run.memory_metric.as_deref().and_then(MetricName::from_word);
    let predicted = match named {
        Some(MetricName::AllocatedPeak) => Some(allocated),
        Some(MetricName::ReservedPeak) => Some(reserved),
        Some(MetricName::DevicePeak) => Some(report.verdict.device_peak_bytes),
        _ => None,
    };
    if let (Some(name), Some(predicted), Some(gib)) = (named, predicted, measured.peak_mem_gib) {
        metrics.insert(name, Metric::against(predicted.as_f64(), bytes(gib)));
    }
    let by_rate = measured.tokens_per_s_per_gpu.map(|rate| tokens_per_step / rate);
    if let (Some(seconds), true) = (measured.step_time_s.or(by_rate), words::times_count(run)) {
        let predicted = report.steady.time.step_s;
        metrics.insert(MetricName::StepTime, Metric::against(predicted, seconds));
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::simulate::Rates;

    const ROW: &str = r#"{"id": "a", "kind": "finetune", "gpu": "H100-80GB SXM", "n_gpus": 1,
        "framework": "transformers Trainer", "micro_batch": 2, "global_batch": 8, "seq_len": 64,
        "model": {"name": "Llama-3.2-1B", "layers": 2, "hidden": 256, "heads": 4, "kv_heads": 2,
            "ffn": 512, "vocab": 1000, "mlp": "swiglu", "tied_embeddings": true},
        "precision": "bf16", "optimizer": "adamw_torch", "recompute": "none", "other": "",
        "notes": "", "measured": {"peak_mem_gib": 1.0, "tokens_per_s_per_gpu": 512.0},
        "memory_metric": "allocated_peak"}"#;

    fn judge(row: &str) -> Row {
        let catalog = Catalog::builtin();
        judge_published("row", row, Setup { catalog: &catalog, rates: Rates::Nominal })
    }

    #[test]
    fn memory_and_time_are_compared_in_their_units() {
        let row = judge(ROW);
        assert_eq!((row.status, row.reason), (Status::Ok, None));
        let measured = |name| row.metrics.get(&name).and_then(|metric| metric.measured);
        assert_eq!(measured(MetricName::AllocatedPeak), Some(1_073_741_824.0));
        assert_eq!(measured(MetricName::StepTime), Some(1.0)); // 2 × 4 × 64 tokens at 512 a second
        assert_eq!(row.metrics.len(), 2);
    }

    #[test]
    fn what_cannot_be_expressed_is_said() {
        let check = |from: &str, to: &str, expect: &str| {
            let text = ROW.replacen(from, to, 1);
            assert_ne!(text, ROW, "{from}");
            let row = judge(&text);
            let reason = row.reason.unwrap_or_default();
            assert_eq!(row.status, Status::Unsupported, "{to}");
            assert!(reason.contains(expect), "{to}: {reason}");
        };
        check("\"n_gpus\": 1", "\"n_gpus\": 8, \"parallel\": {\"tp\": 8}", "tensor parallelism");
        check("\"n_gpus\": 1", "\"n_gpus\": null", "number of GPUs");
        check("\"finetune\"", "\"infer\"", "inference");
        check("transformers Trainer", "maxtext", "stack");
        check("\"other\": \"\"", "\"other\": \"method lora\"", "rank and modules");
        check("\"bf16\"", "\"bf16 + float8 linear\"", "number format");
        check("adamw_torch", "shampoo", "optimizer");
        check("\"none\"", "\"selective\"", "recomputation");
        check("\"none\"", "null", "recomputed");
        check("H100-80GB SXM", "H100 SXM 96GB", "GPU");
        check("Llama-3.2-1B", "mamba-2", "models like");
        check("\"ffn\": 512,", "", "model.ffn");
        check("\"global_batch\": 8", "\"global_batch\": 7", "global batch");
        check("\"micro_batch\": 2", "\"micro_batch\": 0.5", "micro-batch");
        check("\"peak_mem_gib\": 1.0, \"tokens_per_s_per_gpu\": 512.0", "", "no number");
    }
}
