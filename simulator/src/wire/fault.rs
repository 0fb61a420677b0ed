//! What is wrong with an input: every fault with its field path and the rule it breaks.

use core::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The rule that an input breaks; the page translates by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The text is not JSON or TOML at all.
    Syntax,
    /// The field is required and absent.
    Missing,
    /// No field of this name exists there.
    UnknownField,
    /// The value has the wrong type.
    Type,
    /// The number is outside its range.
    Range,
    /// The value is none of the allowed words.
    Choice,
    /// The format's version is newer than this program, or not a version.
    Version,
    /// No catalog entry has this id.
    UnknownId,
    /// One number must be a multiple of another.
    Divisible,
    /// Two fields contradict each other.
    Conflict,
    /// The input is legal, but this program cannot simulate it yet.
    Unsupported,
}

/// A value that would mend a fault with one click.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Mend {
    /// The field to set, by path.
    pub path: String,
    /// What to set it to.
    pub value: Value,
}

/// One fault of an input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Fault {
    /// Where: dotted field path, such as `model.config.num_attention_heads`; empty for the whole.
    pub path: String,
    /// Which rule is broken.
    pub rule: Rule,
    /// The fault in one English sentence that names the field, the value and the rule.
    pub message: String,
    /// The rule's values for translated sentences, such as `["4096", "multiple of", "7"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Values that would mend it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mends: Vec<Mend>,
}

impl Fault {
    /// A fault without arguments and mends.
    pub fn new(path: impl Into<String>, rule: Rule, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            rule,
            message: message.into(),
            arguments: Vec::new(),
            mends: Vec::new(),
        }
    }

    /// The same fault with one more value that would mend it.
    #[must_use]
    pub fn mend(mut self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.mends.push(Mend { path: path.into(), value: value.into() });
        self
    }

    /// The same fault with the rule's values.
    #[must_use]
    pub fn arguments<const N: usize>(mut self, arguments: [String; N]) -> Self {
        self.arguments = arguments.into();
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// All faults of an input, never empty when returned as an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Faults(pub Vec<Fault>);

impl Faults {
    /// Adds a fault.
    pub fn push(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `Ok(value)` when nothing is wrong.
    ///
    /// # Errors
    ///
    /// All faults, when there is one.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(Vec::from([fault]))
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if 0 < index {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl core::error::Error for Faults {}
