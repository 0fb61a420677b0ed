//! One line of the output: a case, whether it could be predicted, and its numbers.

use serde::Serialize;
use serde_json::{Map, Value};

use super::metric::Metrics;

/// What a case is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One traced step.
    Case,
    /// The allocator's whole life.
    Allocator,
    /// A published run.
    Published,
}

impl Kind {
    /// The word in the output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Case => "case",
            Self::Allocator => "allocator",
            Self::Published => "published",
        }
    }
}

/// What became of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It was predicted.
    Ok,
    /// It cannot be expressed as a scenario, or the simulator cannot run it.
    Unsupported,
    /// It could not be read.
    Invalid,
}

impl Status {
    /// The word in the output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unsupported => "unsupported",
            Self::Invalid => "invalid",
        }
    }
}

/// One case of the output. The field names are a contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name; a file's name where it could not be read.
    pub id: String,
    /// What it is.
    pub kind: Kind,
    /// Which cases it is summed up with.
    pub family: String,
    /// Software it ran with.
    pub stack: String,
    /// What became of it.
    pub status: Status,
    /// Why it was not predicted.
    pub reason: Option<String>,
    /// Its numbers.
    pub metrics: Metrics,
}

impl Row {
    /// A case that was predicted.
    pub fn ok(head: Head, metrics: Metrics) -> Self {
        Self::new(head, Status::Ok, None, metrics)
    }

    /// A case that cannot be predicted.
    pub fn unsupported(head: Head, reason: impl Into<String>) -> Self {
        Self::new(head, Status::Unsupported, Some(reason.into()), Metrics::new())
    }

    /// A case that could not be read.
    pub fn invalid(id: impl Into<String>, kind: Kind, reason: impl Into<String>) -> Self {
        let head = Head { id: id.into(), kind, family: String::new(), stack: String::new() };
        Self::new(head, Status::Invalid, Some(reason.into()), Metrics::new())
    }

    fn new(head: Head, status: Status, reason: Option<String>, metrics: Metrics) -> Self {
        let Head { id, kind, family, stack } = head;
        Self { id, kind, family, stack, status, reason, metrics }
    }
}

/// What is known of a case before it is predicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its name.
    pub id: String,
    /// What it is.
    pub kind: Kind,
    /// Which cases it is summed up with.
    pub family: String,
    /// Software it ran with.
    pub stack: String,
}

/// The family of a captured case: the model's class; for torchvision the name without its size
/// (`resnet`); `megatron` for Megatron-core models.
pub fn family(case: &Map<String, Value>) -> String {
    let model = |path: &[&str]| {
        path.iter()
            .try_fold(case.get("model")?, |value, key| value.get(*key))
            .and_then(Value::as_str)
    };
    match model(&["kind"]) {
        Some("torchvision") => {
            let name = model(&["config", "name"]).unwrap_or("torchvision");
            name.chars().take_while(char::is_ascii_alphabetic).collect()
        }
        Some(kind) => kind.to_owned(),
        None => "megatron".to_owned(),
    }
}
