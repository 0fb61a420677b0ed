//! Trace events: phases and device work as slices, memory as counters. Opens in Perfetto and
//! in Chrome's own viewer.
//!
//! Format: "Trace Event Format" (Google, 2016), JSON object form; times in µs, three decimals.

use serde::Serialize;

use crate::units::Bytes;
use crate::wire::timeline::{BEFORE, Category, NO_LAYER, Timeline};
use crate::wire::{Report, Scenario};

use super::{Names, remarks};

/// The process rows of the trace.
const HOST: u32 = 1;
const DEVICE: u32 = 2;
const MEMORY: u32 = 3;

/// Names of the counters, by `Category`'s number; nothing for what is not a tensor's.
const COUNTERS: [Option<&str>; Category::ALL.len()] = [
    None,
    Some("weights (bytes)"),
    Some("optimizer_states (bytes)"),
    Some("gradients (bytes)"),
    Some("inputs (bytes)"),
    Some("activations (bytes)"),
    Some("logits (bytes)"),
    Some("temporaries (bytes)"),
    None,
];
const ALLOCATED: &str = "allocated (bytes)";
const RESERVED: &str = "reserved (bytes)";

/// The whole file.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trace<'a> {
    display_time_unit: &'static str,
    other_data: About<'a>,
    #[serde(rename = "traceEvents")]
    events: Vec<Event<'a>>,
}

#[derive(Serialize)]
struct About<'a> {
    remarks: [String; 3],
    model: &'a str,
    gpu: &'a str,
    scenario: &'a Scenario,
}

/// One event of the format.
#[derive(Serialize)]
struct Event<'a> {
    ph: char,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    pid: u32,
    tid: u32,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    args: Args<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Args<'a> {
    Title { name: &'static str },
    Phase { micro_batch: u32, first_event: u32, end_event: u32 },
    Work { block: &'a str, layer: Option<u32>, issued_us: f64 },
    Counter { bytes: u64 },
}

/// A step as trace events, in JSON.
pub fn chrome_trace(report: &Report, timeline: &Timeline) -> String {
    let mut events = Vec::from(titles());
    events.extend(phases(timeline));
    events.extend(work(timeline));
    counters(timeline, &mut events);
    let trace = Trace {
        display_time_unit: "ms",
        other_data: About {
            remarks: remarks(report),
            model: &report.model.name,
            gpu: &report.gpu.name,
            scenario: &report.scenario,
        },
        events,
    };
    // Nothing in it can fail to become JSON: no maps with other keys than strings.
    serde_json::to_string(&trace).unwrap_or_default()
}

fn titles() -> [Event<'static>; 5] {
    let title = |what: &'static str, pid: u32, name: &'static str| Event {
        ph: 'M',
        name: what,
        cat: None,
        pid,
        tid: 0,
        ts: 0.0,
        dur: None,
        args: Args::Title { name },
    };
    [
        title("process_name", HOST, "host (predicted)"),
        title("thread_name", HOST, "phases"),
        title("process_name", DEVICE, "device (predicted)"),
        title("thread_name", DEVICE, "compute stream"),
        title("process_name", MEMORY, "memory, in host order (predicted)"),
    ]
}

/// From when the host enters a phase to when it enters the next one; the last one ends with the device.
fn phases(timeline: &Timeline) -> impl Iterator<Item = Event<'_>> {
    let starts = timeline.phases.iter().skip(1).map(|next| next.start_ns);
    let ends = starts.chain(timeline.phases.last().map(|last| last.end_ns));
    timeline.phases.iter().zip(ends).map(|(phase, end_ns)| Event {
        ph: 'X',
        name: phase.kind.word(),
        cat: Some("phase"),
        pid: HOST,
        tid: 0,
        ts: micros(phase.start_ns),
        dur: Some(micros(end_ns.saturating_sub(phase.start_ns))),
        args: Args::Phase {
            micro_batch: phase.micro_batch,
            first_event: phase.first_event,
            end_event: phase.end_event,
        },
    })
}

fn work(timeline: &Timeline) -> impl Iterator<Item = Event<'_>> {
    let names = Names(timeline);
    let work = &timeline.work;
    (0..work.start_ns.len()).map(move |row| Event {
        ph: 'X',
        name: names.label(work.primitive[row]),
        cat: Some("device"),
        pid: DEVICE,
        tid: 0,
        ts: micros(work.start_ns[row]),
        dur: Some(micros(work.end_ns[row].saturating_sub(work.start_ns[row]))),
        args: Args::Work {
            block: names.label(work.block[row]),
            layer: Some(work.layer[row]).filter(|layer| *layer != NO_LAYER),
            issued_us: micros(work.issued_ns[row]),
        },
    })
}

/// One counter for each category, and the allocator's two; a new value where one changes.
fn counters(timeline: &Timeline, into: &mut Vec<Event<'_>>) {
    let mut push = |name: &'static str, time_ns: u64, bytes: u64| {
        let args = Args::Counter { bytes };
        let ts = micros(time_ns);
        into.push(Event { ph: 'C', name, cat: None, pid: MEMORY, tid: 0, ts, dur: None, args });
    };
    let names = Names(timeline);
    let place = |tensor: usize| names.category(tensor).unwrap_or(Category::Temporaries) as usize;
    let mut live = [0_u64; Category::ALL.len()];
    for (tensor, bytes) in timeline.tensors.bytes.iter().enumerate() {
        if timeline.tensors.born[tensor] == BEFORE {
            live[place(tensor)] += bytes;
        }
    }
    for (name, bytes) in COUNTERS.iter().zip(live) {
        if let Some(name) = name {
            push(name, 0, bytes);
        }
    }
    push(RESERVED, 0, timeline.base_reserved);
    let columns = &timeline.events;
    let (mut reserved, mut allocated) = (timeline.base_reserved, 0);
    for event in 0..columns.len() {
        let time_ns = columns.time_ns[event];
        let tensor = columns.tensor[event] as usize;
        let bytes = timeline.tensors.bytes[tensor];
        let place = place(tensor);
        let now = &mut live[place];
        *now = if columns.is_alloc[event] == 1 { *now + bytes } else { now.saturating_sub(bytes) };
        if let Some(name) = COUNTERS[place] {
            push(name, time_ns, *now);
        }
        if columns.allocated[event] != allocated {
            allocated = columns.allocated[event];
            push(ALLOCATED, time_ns, allocated);
        }
        if columns.reserved[event] != reserved {
            reserved = columns.reserved[event];
            push(RESERVED, time_ns, reserved);
        }
    }
}

/// Nanoseconds in the format's unit.
fn micros(ns: u64) -> f64 {
    // As a count it converts exactly below 2⁵³, whatever its unit.
    Bytes::new(ns).as_f64() / 1000.0
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::catalog::Catalog;
    use crate::scenario::{Format, read, validate};
    use crate::simulate::simulate;

    #[test]
    fn counters_are_named_by_category_and_end_where_they_began() {
        for (category, name) in Category::ALL.iter().zip(COUNTERS) {
            assert!(name.is_none_or(|name| name == format!("{} (bytes)", category.word())));
        }
        let text = "version = 1\n[model]\nid = \"gpt2\"\n[hardware]\ngpu = \"h200-sxm\"\n\
                    [workload]\nmicro_batch = 1\nseq_len = 64\n";
        let scenario = read(text, Format::Toml).unwrap();
        let simulation = simulate(&validate(&scenario, &Catalog::builtin()).unwrap());
        let trace = chrome_trace(&simulation.report, &simulation.steady);
        let trace: Value = serde_json::from_str(&trace).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let weights: Vec<&Value> =
            events.iter().filter(|event| event["name"] == "weights (bytes)").collect();
        assert_eq!(weights.first().unwrap()["args"], weights.last().unwrap()["args"]);
        let phases: Vec<_> = events.iter().filter(|event| event["cat"] == "phase").collect();
        assert_eq!(phases.len(), simulation.steady.phases.len());
        // Slices of one thread may nest, and may not overlap.
        for pair in phases.windows(2) {
            let end = pair[0]["ts"].as_f64().unwrap() + pair[0]["dur"].as_f64().unwrap();
            assert!(end <= pair[1]["ts"].as_f64().unwrap() + 1e-3, "{} {}", pair[0], pair[1]);
        }
    }
}
