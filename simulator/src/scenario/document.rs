//! Reads fields out of a JSON document and collects every fault on the way.
//!
//! A field that is absent, and one that is wrong, are different: reading returns `None` for a
//! wrong one, after noting the fault, and the caller's default for an absent one. So the reading
//! goes on to the end, and rules over several fields are checked where their fields are right.

use core::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::size::parse_size;
use crate::catalog::nearest;
use crate::units::MAX_EXACT_JSON;
use crate::wire::{Fault, Faults, Rule};

/// One table of a document: its path, its fields, and which of them were asked for.
pub(crate) struct Table<'a> {
    path: String,
    fields: &'a Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'a> Table<'a> {
    /// A table at a path.
    pub(crate) const fn new(path: String, fields: &'a Map<String, Value>) -> Self {
        Self { path, fields, known: Vec::new() }
    }

    /// The document's root; `None` when it is not a table.
    pub(crate) fn root(document: &'a Value, faults: &mut Faults) -> Option<Self> {
        match document {
            Value::Object(fields) => Some(Self::new(String::new(), fields)),
            other => {
                faults.push(type_fault("", "a table of fields", other));
                None
            }
        }
    }

    /// A field's dotted path.
    pub(crate) fn path(&self, key: &str) -> String {
        if self.path.is_empty() { String::from(key) } else { format!("{}.{key}", self.path) }
    }

    /// All fields, asked for or not.
    pub(crate) const fn fields(&self) -> &'a Map<String, Value> {
        self.fields
    }

    /// The field as it stands, null included; from now on it counts as known.
    pub(crate) fn raw(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.push(key);
        self.fields.get(key)
    }

    /// The field, where null counts as absent.
    pub(crate) fn value(&mut self, key: &'static str) -> Option<&'a Value> {
        self.raw(key).filter(|value| !value.is_null())
    }

    /// A table inside; absent is a fault.
    pub(crate) fn required_table(
        &mut self,
        key: &'static str,
        faults: &mut Faults,
    ) -> Option<Table<'a>> {
        if self.value(key).is_none() {
            faults.push(missing(self.path(key)));
        }
        self.table(key, faults)
    }

    /// A table inside; `None` when it is absent or wrong.
    pub(crate) fn table(&mut self, key: &'static str, faults: &mut Faults) -> Option<Table<'a>> {
        match self.value(key)? {
            Value::Object(fields) => Some(Table::new(self.path(key), fields)),
            other => {
                faults.push(type_fault(&self.path(key), "a table of fields", other));
                None
            }
        }
    }

    /// A whole number that must be there.
    pub(crate) fn required_integer(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        faults: &mut Faults,
    ) -> Option<u64> {
        if let Some(value) = self.value(key) {
            return integer(&self.path(key), value, range, faults);
        }
        faults.push(missing(self.path(key)));
        None
    }

    /// A whole number, or the default where it is absent.
    pub(crate) fn integer_or(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        default: u64,
        faults: &mut Faults,
    ) -> Option<u64> {
        match self.value(key) {
            Some(value) => integer(&self.path(key), value, range, faults),
            None => Some(default),
        }
    }

    /// Bytes: a whole number, or a text with a unit such as `2 GiB`.
    pub(crate) fn bytes(&mut self, key: &'static str, faults: &mut Faults) -> Option<u64> {
        let value = self.value(key)?;
        let path = self.path(key);
        let Value::String(text) = value else {
            return integer(&path, value, 0..=u64::MAX >> 2, faults);
        };
        let parsed = parse_size(text);
        if parsed.is_none() {
            faults.push(type_fault(
                &path,
                "bytes, or a size such as \"2 GiB\" or \"500 MB\"",
                value,
            ));
        }
        parsed
    }

    /// A number in a range, or the default where it is absent.
    pub(crate) fn number_or(
        &mut self,
        key: &'static str,
        range: RangeInclusive<f64>,
        default: f64,
        faults: &mut Faults,
    ) -> Option<f64> {
        let Some(value) = self.value(key) else { return Some(default) };
        let Some(number) = value.as_f64() else {
            faults.push(type_fault(&self.path(key), "a number", value));
            return None;
        };
        if range.contains(&number) {
            return Some(number);
        }
        let (low, high) = (range.start().to_string(), range.end().to_string());
        faults.push(range_fault(&self.path(key), &number.to_string(), &low, &high));
        None
    }

    /// Yes or no, or the default where it is absent.
    pub(crate) fn flag_or(
        &mut self,
        key: &'static str,
        default: bool,
        faults: &mut Faults,
    ) -> Option<bool> {
        match self.value(key) {
            None => Some(default),
            Some(Value::Bool(flag)) => Some(*flag),
            Some(other) => {
                faults.push(type_fault(&self.path(key), "true or false", other));
                None
            }
        }
    }

    /// A text; `None` when it is absent or wrong.
    pub(crate) fn text(&mut self, key: &'static str, faults: &mut Faults) -> Option<&'a str> {
        match self.value(key)? {
            Value::String(text) => Some(text),
            other => {
                faults.push(type_fault(&self.path(key), "a text", other));
                None
            }
        }
    }

    /// A list of texts that must be there.
    pub(crate) fn required_texts(
        &mut self,
        key: &'static str,
        faults: &mut Faults,
    ) -> Option<Vec<String>> {
        let Some(value) = self.value(key) else {
            faults.push(missing(self.path(key)));
            return None;
        };
        let texts = value.as_array().and_then(|items| {
            items.iter().map(|item| item.as_str().map(String::from)).collect::<Option<Vec<_>>>()
        });
        if texts.is_none() {
            faults.push(type_fault(&self.path(key), "a list of texts", value));
        }
        texts
    }

    /// A text that must be there.
    pub(crate) fn required_text(
        &mut self,
        key: &'static str,
        faults: &mut Faults,
    ) -> Option<&'a str> {
        if self.value(key).is_none() {
            faults.push(missing(self.path(key)));
        }
        self.text(key, faults)
    }

    /// One of some words, or the default where it is absent.
    pub(crate) fn word_or<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
        default: T,
        faults: &mut Faults,
    ) -> Option<T> {
        if self.value(key).is_none() {
            return Some(default);
        }
        self.word(key, words, faults)
    }

    /// One of some words, which must be there.
    pub(crate) fn required_word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
        faults: &mut Faults,
    ) -> Option<T> {
        if self.value(key).is_none() {
            faults.push(missing(self.path(key)));
        }
        self.word(key, words, faults)
    }

    /// One of some words; `None` when it is absent or wrong.
    pub(crate) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
        faults: &mut Faults,
    ) -> Option<T> {
        let text = self.text(key, faults)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            faults.push(choice_fault(self.path(key), text, &names));
        }
        found
    }

    /// Fields that were asked for.
    pub(crate) fn known(&self) -> &[&'static str] {
        &self.known
    }

    /// Fields that nobody asked for.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a, '_> {
        self.fields.iter().filter(|(key, _)| !self.known.contains(&key.as_str()))
    }

    /// Notes every field that nobody asked for.
    pub(crate) fn finish(self, faults: &mut Faults) {
        for (key, _) in self.unknown() {
            faults.push(unknown_field(self.path(key), key, &self.known));
        }
    }
}

/// A whole number within a range; also as a decimal text, which carries integers above 2⁵³.
fn integer(
    path: &str,
    value: &Value,
    range: RangeInclusive<u64>,
    faults: &mut Faults,
) -> Option<u64> {
    let number = match value {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let (low, high) = (range.start().to_string(), range.end().to_string());
    match number {
        Some(number) if range.contains(&number) => return Some(number),
        Some(number) => {
            let nearest = number.clamp(*range.start(), *range.end());
            let fault = range_fault(path, &number.to_string(), &low, &high);
            faults.push(fault.mend(path, nearest));
        }
        None if value.as_f64().is_some_and(|number| number < 0.0) => {
            let fault = range_fault(path, &value.to_string(), &low, &high);
            faults.push(fault.mend(path, *range.start()));
        }
        None => faults.push(type_fault(path, "a whole number", value)),
    }
    None
}

/// `4096.0` is a whole number too (YAML and JavaScript write it so).
fn whole(number: f64) -> Option<u64> {
    #[expect(clippy::cast_precision_loss, reason = "2^53 is exact")]
    let exact = 0.0 <= number
        && number <= MAX_EXACT_JSON as f64
        && libm::trunc(number).total_cmp(&number).is_eq();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked: whole, not negative, at most 2^53"
    )]
    exact.then_some(number as u64)
}

/// A required field that is not there.
pub(crate) fn missing(path: String) -> Fault {
    let message = format!("`{path}` is required");
    Fault::new(path, Rule::Missing, message)
}

/// A field of this name does not exist.
pub(crate) fn unknown_field(path: String, key: &str, known: &[&'static str]) -> Fault {
    let near = nearest(key, known.iter().copied());
    let hint = near.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    let message = format!("there is no field `{}` here{hint}", shortened(key));
    let mut fault = Fault::new(path, Rule::UnknownField, message);
    fault.arguments = [key].into_iter().chain(near).map(shortened).collect();
    fault
}

/// A value of the wrong type.
pub(crate) fn type_fault(path: &str, expected: &str, found: &Value) -> Fault {
    let found = described(found);
    Fault::new(path, Rule::Type, format!("expected {expected}, found {found}"))
        .arguments([String::from(expected), found])
}

/// A number outside its range.
pub(crate) fn range_fault(path: &str, found: &str, low: &str, high: &str) -> Fault {
    let found = shortened(found);
    let message = format!("{found} is outside {low} to {high}");
    Fault::new(path, Rule::Range, message).arguments([found, String::from(low), String::from(high)])
}

/// A word that is none of the allowed ones; the nearest ones come as mends.
pub(crate) fn choice_fault(path: String, found: &str, words: &[&str]) -> Fault {
    let shown = shortened(found);
    let message = format!("`{shown}` is none of: {}", words.join(", "));
    let mut fault = Fault::new(path.clone(), Rule::Choice, message);
    fault.arguments =
        [shown.as_str()].into_iter().chain(words.iter().copied()).map(String::from).collect();
    match nearest(found, words.iter().copied()) {
        Some(near) => fault.mend(path, near),
        None => words.iter().fold(fault, |fault, word| fault.mend(path.clone(), *word)),
    }
}

/// A value in a few words.
fn described(value: &Value) -> String {
    match value {
        Value::Null => String::from("null"),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("\"{}\"", shortened(text)),
        Value::Array(_) => String::from("a list"),
        Value::Object(_) => String::from("a table"),
    }
}

/// Enough of a text to recognise it.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => String::from(text),
    }
}
