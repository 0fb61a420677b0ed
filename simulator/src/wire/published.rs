//! A published run: one line of `published/runs.jsonl`.
//!
//! The rows were collected from many sources by hand, so most of a row is words for people; only
//! what a comparison needs is typed. Unknown fields are tolerated.

use serde_json::{Map, Value};

use super::fault::{Fault, Faults, Rule};
use super::fields::Fields;

/// One published run.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedRun {
    /// Its name; the first words are the source's.
    pub id: String,
    /// Where it was published.
    pub source: String,
    /// `train`, `finetune` or `infer`.
    pub kind: String,
    /// The model's shape, as far as it is known.
    pub model: Map<String, Value>,
    /// The GPU in words.
    pub gpu: String,
    /// How many of them.
    pub n_gpus: Option<u64>,
    /// The software in words.
    pub framework: String,
    /// Degrees of its layout, and how replicas share weights, in words.
    pub parallel: Map<String, Value>,
    /// Sequences per forward pass on one GPU; 0.5 and the like occur.
    pub micro_batch: Option<f64>,
    /// Sequences per optimizer step over all GPUs.
    pub global_batch: Option<u64>,
    /// Tokens per sequence.
    pub seq_len: Option<u64>,
    /// Number formats in words.
    pub precision: Option<String>,
    /// Optimizer in words.
    pub optimizer: Option<String>,
    /// Recomputation in words.
    pub recompute: Option<String>,
    /// Everything else that was said of the run.
    pub other: String,
    /// What to mind when it is used.
    pub notes: String,
    /// What was measured.
    pub measured: Measured,
    /// What the memory means, in words: of which ranks, from which counter.
    pub memory_kind: String,
    /// Which metric the memory is compared with.
    pub memory_metric: Option<String>,
}

/// What was measured of a published run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Peak memory, in the sense of `memory_metric`.
    pub peak_mem_gib: Option<f64>,
    /// Peak of reserved memory, where it is given beside the other.
    pub peak_reserved_gib: Option<f64>,
    /// One optimizer step, s.
    pub step_time_s: Option<f64>,
    /// Tokens per second and GPU.
    pub tokens_per_s_per_gpu: Option<f64>,
    /// Whether it ran out of memory.
    pub oom: bool,
}

/// Reads a row.
///
/// # Errors
///
/// Every fault of the row with its field path.
pub fn read_run(line: &str) -> Result<PublishedRun, Faults> {
    let row: Map<String, Value> = serde_json::from_str(line)
        .map_err(|error| Faults::from(Fault::new("", Rule::Syntax, error.to_string())))?;
    let mut fields = Fields::new(&row);
    let run = PublishedRun {
        id: fields.text(&["id"]),
        source: fields.text_or_absent(&["source"]).unwrap_or_default(),
        kind: fields.text(&["kind"]),
        model: fields.object(&["model"]),
        gpu: fields.text(&["gpu"]),
        n_gpus: fields.whole_or_absent(&["n_gpus"]),
        framework: fields.text(&["framework"]),
        parallel: row.get("parallel").and_then(Value::as_object).cloned().unwrap_or_default(),
        micro_batch: fields.number_or_absent(&["micro_batch"]),
        global_batch: fields.whole_or_absent(&["global_batch"]),
        seq_len: fields.whole_or_absent(&["seq_len"]),
        precision: fields.text_or_absent(&["precision"]),
        optimizer: fields.text_or_absent(&["optimizer"]),
        recompute: fields.text_or_absent(&["recompute"]),
        other: fields.text_or_absent(&["other"]).unwrap_or_default(),
        notes: fields.text_or_absent(&["notes"]).unwrap_or_default(),
        measured: Measured {
            peak_mem_gib: fields.number_or_absent(&["measured", "peak_mem_gib"]),
            peak_reserved_gib: fields.number_or_absent(&["measured", "peak_reserved_gib"]),
            step_time_s: fields.number_or_absent(&["measured", "step_time_s"]),
            tokens_per_s_per_gpu: fields.number_or_absent(&["measured", "tokens_per_s_per_gpu"]),
            oom: fields.flag_or_absent(&["measured", "oom"]).unwrap_or(false),
        },
        memory_kind: fields.text_or_absent(&["measured", "mem_kind"]).unwrap_or_default(),
        memory_metric: fields.text_or_absent(&["memory_metric"]),
    };
    fields.faults.or(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_and_its_faults_are_named() {
        let line = r#"{"id": "x", "kind": "train", "model": {"hidden": 8}, "gpu": "H100",
            "framework": "f", "n_gpus": null, "micro_batch": 0.5, "new": 1,
            "measured": {"peak_mem_gib": 2.5, "oom": true}}"#;
        let run = read_run(line).unwrap();
        assert_eq!((run.micro_batch, run.n_gpus), (Some(0.5), None));
        assert_eq!(run.measured.peak_mem_gib, Some(2.5));
        assert!(run.measured.oom && run.other.is_empty());
        let check = |from: &str, to: &str, path: &str| {
            let faults = read_run(&line.replacen(from, to, 1)).unwrap_err();
            assert_eq!(faults.0[0].path, path, "{faults}");
        };
        check("2.5", "\"much\"", "measured.peak_mem_gib");
        check("\"gpu\"", "\"gpus\"", "gpu");
        check("{", "", "");
    }
}
