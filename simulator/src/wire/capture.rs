//! A captured training step: the ground truth's `cases/ID.json.gz`, decompressed.
//!
//! The file is one JSON object. Unknown fields are tolerated, known ones are checked, and all
//! faults come back at once with their paths. The rows of `events` are read straight into a
//! compact struct: a file holds up to a hundred thousand of them.

use core::fmt;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess};
use serde_json::{Map, Value};

use super::fault::{Fault, Faults, Rule};
use super::fields::Fields;

/// What the allocator did in one row of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// A request was served.
    Alloc,
    /// A block came back.
    Free,
    /// A segment was taken from the driver.
    SegmentAlloc,
    /// A segment was given back to the driver.
    SegmentFree,
    /// A part of an expandable segment was mapped.
    SegmentMap,
    /// A part of an expandable segment was unmapped.
    SegmentUnmap,
    /// Anything else, such as `oom`.
    Other,
}

impl Action {
    fn from_word(word: &str) -> Self {
        match word {
            "alloc" => Self::Alloc,
            "free" => Self::Free,
            "segment_alloc" => Self::SegmentAlloc,
            "segment_free" => Self::SegmentFree,
            "segment_map" => Self::SegmentMap,
            "segment_unmap" => Self::SegmentUnmap,
            _ => Self::Other,
        }
    }
}

/// One row of `events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureEvent {
    /// When the host issued it, µs since the trace's start.
    pub t_us: u64,
    /// What happened.
    pub action: Action,
    /// Requested bytes.
    pub bytes: u64,
    /// Which allocation; −1 for one from before the trace.
    pub id: i64,
    /// Stream, as a small number; 0 where the process used one.
    pub stream: u32,
}

/// What the process's program noted at the end of a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Phase that has just ended: `start`, `fwd`, `bwd`, `clip`, `opt`, `zero`, `prefill_end`.
    pub phase: String,
    /// When, µs since the trace's start; absent in the first step's marks.
    pub t_us: Option<u64>,
    /// The allocator's counter of bytes handed out.
    pub alloc: Option<u64>,
    /// Its peak since the step's start.
    pub peak_so_far: Option<u64>,
    /// Bytes held from the driver.
    pub reserved: Option<u64>,
}

/// Parameters of the model that ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Of the whole model.
    pub total: Option<u64>,
    /// Held by this rank.
    pub local: Option<u64>,
    /// That receive gradients.
    pub trainable: Option<u64>,
    /// Bytes of buffers.
    pub buffer_bytes: Option<u64>,
}

/// Peaks of the run, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Highest sum of live requests in the traced step, `base_alloc` included.
    pub traced_step_allocated: u64,
    /// The allocator's counter over the whole process.
    pub allocated: Option<u64>,
    /// Most bytes held from the driver over the whole process.
    pub reserved: Option<u64>,
}

/// Median times of the run by CUDA events, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// Forward; with accumulation not comparable.
    pub fwd: Option<f64>,
    /// Backward; with accumulation not comparable.
    pub bwd: Option<f64>,
    /// Clipping, optimizer, `zero_grad`.
    pub opt: Option<f64>,
    /// Whole step.
    pub step: Option<f64>,
}

/// One captured case.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseCapture {
    /// Its name.
    pub id: String,
    /// Library versions.
    pub stack: String,
    /// The GPU's name.
    pub gpu: String,
    /// What ran, as the measuring program was told.
    pub case: Map<String, Value>,
    /// Parameter counts.
    pub params: Parameters,
    /// Ends of the phases of the traced step; empty where the program had none.
    pub marks: Vec<Mark>,
    /// Ends of the phases of the first step.
    pub first_step_marks: Vec<Mark>,
    /// Peaks.
    pub peak: Peaks,
    /// The driver's figure minus what the pool reserved.
    pub outside_pool_bytes: Option<u64>,
    /// Median times, where they are given.
    pub time_ms: Times,
    /// The allocator's counter when the traced step starts (whole blocks, not requests).
    pub base_alloc: u64,
    /// What the allocator did, in order.
    pub events: Vec<CaptureEvent>,
}

/// Reads a case.
///
/// # Errors
///
/// Every fault of the file with its field path: not JSON, fields missing or of the wrong type.
pub fn read_case(json: &[u8]) -> Result<CaseCapture, Faults> {
    let file: File<CaptureEvent> = serde_json::from_slice(json).map_err(|error| fault(&error))?;
    let mut fields = Fields::new(&file.fields);
    let capture = CaseCapture {
        id: fields.text(&["id"]),
        stack: fields.text(&["stack"]),
        gpu: fields.text(&["gpu"]),
        case: fields.object(&["case"]),
        params: Parameters {
            total: fields.whole_or_absent(&["params", "total"]),
            local: fields.whole_or_absent(&["params", "local"]),
            trainable: fields.whole_or_absent(&["params", "trainable"]),
            buffer_bytes: fields.whole_or_absent(&["params", "buffer_bytes"]),
        },
        marks: marks(&mut fields, "marks"),
        first_step_marks: marks(&mut fields, "first_step_marks"),
        peak: Peaks {
            traced_step_allocated: fields.whole(&["peak", "traced_step_allocated"]),
            allocated: fields.whole_or_absent(&["peak", "allocated"]),
            reserved: fields.whole_or_absent(&["peak", "reserved"]),
        },
        outside_pool_bytes: fields.whole_or_absent(&["outside_pool_bytes"]),
        time_ms: Times {
            fwd: fields.number_or_absent(&["time_ms", "fwd"]),
            bwd: fields.number_or_absent(&["time_ms", "bwd"]),
            opt: fields.number_or_absent(&["time_ms", "opt"]),
            step: fields.number_or_absent(&["time_ms", "step"]),
        },
        base_alloc: fields.whole(&["base_alloc"]),
        events: file.events.unwrap_or_default(),
    };
    if !file.has_events {
        fields.faults.push(Fault::new("events", Rule::Missing, "events is missing"));
    }
    fields.faults.or(capture)
}

/// Which of the ground truth's two formats a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureKind {
    /// One traced step with its phases.
    Case,
    /// The allocator's whole life with addresses.
    Allocator,
}

/// Tells the formats apart by the fields that only one of them has.
///
/// # Errors
///
/// The fault, when the file is no JSON object.
pub fn kind_of(json: &[u8]) -> Result<CaptureKind, Faults> {
    let file: File<IgnoredAny> = serde_json::from_slice(json).map_err(|error| fault(&error))?;
    let whole_life = file.fields.contains_key("final_segments");
    Ok(if whole_life { CaptureKind::Allocator } else { CaptureKind::Case })
}

/// The whole of a JSON error as a fault; its path is what the message starts with.
fn fault(error: &serde_json::Error) -> Faults {
    let message = error.to_string();
    let (path, rule) = match message.split_once(": ") {
        Some((path, _)) if error.is_data() && path.starts_with("events") => (path, Rule::Type),
        _ => ("", Rule::Syntax),
    };
    Fault::new(
        path,
        rule,
        message.strip_prefix(path).map_or("", |rest| rest.trim_start_matches(": ")),
    )
    .into()
}

fn marks(fields: &mut Fields<'_>, name: &str) -> Vec<Mark> {
    let rows = match fields.root.get(name) {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(rows)) => rows,
        Some(_) => {
            fields.wrong(&[name], "an array");
            return Vec::new();
        }
    };
    let mut marks = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        let Value::Object(row) = row else {
            fields.wrong(&[&format!("{name}[{index}]")], "an object");
            continue;
        };
        let mut inner = Fields::new(row);
        marks.push(Mark {
            phase: inner.text(&["phase"]),
            t_us: inner.whole_or_absent(&["t_us"]),
            alloc: inner.whole_or_absent(&["alloc"]),
            peak_so_far: inner.whole_or_absent(&["peak_so_far"]),
            reserved: inner.whole_or_absent(&["reserved"]),
        });
        for mut fault in inner.faults.0 {
            fault.path = format!("{name}[{index}].{}", fault.path);
            fields.faults.push(fault);
        }
    }
    marks
}

/// The file's object: its rows apart from everything else.
struct File<Row> {
    events: Option<Vec<Row>>,
    has_events: bool,
    fields: Map<String, Value>,
}

impl<'de, Row: Deserialize<'de>> Deserialize<'de> for File<Row> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<Row>(core::marker::PhantomData<Row>);
        impl<'de, Row: Deserialize<'de>> de::Visitor<'de> for Visitor<Row> {
            type Value = File<Row>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut file = File { events: None, has_events: false, fields: Map::new() };
                while let Some(key) = map.next_key::<String>()? {
                    if key == "events" {
                        let rows = map.next_value::<Rows<Row>>().map_err(name_the_rows)?;
                        file.events = Some(rows.0);
                        file.has_events = true;
                    } else {
                        file.fields.insert(key, map.next_value()?);
                    }
                }
                Ok(file)
            }
        }
        deserializer.deserialize_map(Visitor(core::marker::PhantomData))
    }
}

/// The same error, with the field's name in front when no row's index stands there.
fn name_the_rows<E: de::Error>(error: E) -> E {
    let message = error.to_string();
    if message.starts_with("events") { error } else { E::custom(format!("events: {message}")) }
}

/// Rows whose errors carry their index.
struct Rows<Row>(Vec<Row>);

impl<'de, Row: Deserialize<'de>> Deserialize<'de> for Rows<Row> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<Row>(core::marker::PhantomData<Row>);
        impl<'de, Row: Deserialize<'de>> de::Visitor<'de> for Visitor<Row> {
            type Value = Rows<Row>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of rows")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Self::Value, A::Error> {
                let mut events = Vec::with_capacity(rows.size_hint().unwrap_or(4096));
                loop {
                    match rows.next_element() {
                        Ok(Some(event)) => events.push(event),
                        Ok(None) => return Ok(Rows(events)),
                        Err(error) => {
                            let index = events.len();
                            return Err(de::Error::custom(format!("events[{index}]: {error}")));
                        }
                    }
                }
            }
        }
        deserializer.deserialize_seq(Visitor(core::marker::PhantomData))
    }
}

impl<'de> Deserialize<'de> for CaptureEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = CaptureEvent;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a row [t_us, action, bytes, id] or [t_us, action, bytes, id, stream]")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut row: A) -> Result<CaptureEvent, A::Error> {
                let absent = |column| de::Error::invalid_length(column, &self);
                let t_us = row.next_element()?.ok_or_else(|| absent(0))?;
                let Word(action) = row.next_element()?.ok_or_else(|| absent(1))?;
                let bytes = row.next_element()?.ok_or_else(|| absent(2))?;
                let id = row.next_element()?.ok_or_else(|| absent(3))?;
                let stream = row.next_element()?.unwrap_or(0);
                while row.next_element::<IgnoredAny>()?.is_some() {}
                Ok(CaptureEvent { t_us, action, bytes, id, stream })
            }
        }
        deserializer.deserialize_seq(Visitor)
    }
}

/// An action's word, read without a copy.
struct Word(Action);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Word;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an action's word")
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<Word, E> {
                Ok(Word(Action::from_word(word)))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{"id": "tiny", "stack": "s", "gpu": "g", "case": {"micro_batch": 1},
        "params": {"total": 3, "local": null}, "new": [1],
        "marks": [{"phase": "start", "t_us": 1, "alloc": 5}],
        "peak": {"traced_step_allocated": 1050, "reserved": 2097152}, "base_alloc": 50,
        "events": [[1, "alloc", 1000, 0], [2, "free", 1000, 0, 1], [3, "oom", 7, -1]]}"#;

    #[test]
    fn a_small_case_is_read() {
        let capture = read_case(SMALL.as_bytes()).unwrap();
        assert_eq!(capture.id, "tiny");
        assert_eq!(capture.params.total, Some(3));
        assert_eq!(capture.params.local, None);
        assert_eq!(capture.peak.traced_step_allocated, 1050);
        assert_eq!(capture.marks[0].t_us, Some(1));
        assert_eq!(capture.events.len(), 3);
        assert_eq!(
            capture.events[1],
            CaptureEvent { t_us: 2, action: Action::Free, bytes: 1000, id: 0, stream: 1 }
        );
        assert_eq!(capture.events[2].action, Action::Other);
    }

    #[test]
    fn faults_name_their_fields() {
        let check = |from: &str, to: &str, paths: &[&str]| {
            let text = SMALL.replacen(from, to, 1);
            assert_ne!(text, SMALL, "{from} is not there");
            let faults = read_case(text.as_bytes()).unwrap_err();
            let found: Vec<&str> = faults.0.iter().map(|fault| fault.path.as_str()).collect();
            assert_eq!(found, paths, "{faults}");
        };
        check("\"id\": \"tiny\", ", "", &["id"]);
        check("\"traced_step_allocated\": 1050", "\"x\": 1", &["peak.traced_step_allocated"]);
        check("\"reserved\": 2097152", "\"reserved\": -1", &["peak.reserved"]);
        check("\"t_us\": 1", "\"t_us\": \"a\"", &["marks[0].t_us"]);
        check("2, \"free\", 1000", "2, \"free\", \"x\"", &["events[1]"]);
        check("[3, \"oom\", 7, -1]", "[3]", &["events[2]"]);
        check("\"events\"", "\"other\"", &["events"]);
        check("\"events\": [", "\"events\": 1, \"other\": [", &["events"]);
        check("}", "", &[""]);
    }

    #[test]
    fn the_formats_are_told_apart() {
        assert_eq!(kind_of(SMALL.as_bytes()), Ok(CaptureKind::Case));
        let other = br#"{"id": "x", "events": [["alloc", 1, 0, 0]], "final_segments": []}"#;
        assert_eq!(kind_of(other), Ok(CaptureKind::Allocator));
        assert!(kind_of(b"[]").is_err());
    }
}
