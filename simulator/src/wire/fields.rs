//! Fields of a JSON object by path, with all that is wrong with them.

use serde_json::{Map, Value};

use super::fault::{Fault, Faults, Rule};

/// Reads fields by path out of a JSON object and collects what is wrong with them.
pub(super) struct Fields<'a> {
    pub(super) root: &'a Map<String, Value>,
    pub(super) faults: Faults,
}

impl<'a> Fields<'a> {
    pub(super) fn new(root: &'a Map<String, Value>) -> Self {
        Self { root, faults: Faults::default() }
    }

    /// The value at `path`, or nothing when a part of the path is absent or `null`.
    fn find(&self, path: &[&str]) -> Option<&'a Value> {
        let (first, rest) = path.split_first()?;
        let value = rest
            .iter()
            .try_fold(self.root.get(*first)?, |value, key| value.as_object()?.get(*key))?;
        if value.is_null() { None } else { Some(value) }
    }

    pub(super) fn wrong(&mut self, path: &[&str], expected: &str) {
        let path = path.join(".");
        let message = format!("{path} is not {expected}");
        self.faults.push(Fault::new(path, Rule::Type, message));
    }

    fn missing(&mut self, path: &[&str]) {
        let path = path.join(".");
        let message = format!("{path} is missing");
        self.faults.push(Fault::new(path, Rule::Missing, message));
    }

    /// An optional field, converted.
    fn optional<T>(
        &mut self,
        path: &[&str],
        expected: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.find(path)?;
        let converted = convert(value);
        if converted.is_none() {
            self.wrong(path, expected);
        }
        converted
    }

    /// A required field, converted; the default when it is not there (and a fault is noted).
    fn required<T: Default>(
        &mut self,
        path: &[&str],
        expected: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> T {
        if self.find(path).is_none() {
            self.missing(path);
        }
        self.optional(path, expected, convert).unwrap_or_default()
    }

    pub(super) fn text(&mut self, path: &[&str]) -> String {
        self.required(path, "a string", |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn object(&mut self, path: &[&str]) -> Map<String, Value> {
        self.required(path, "an object", |value| value.as_object().cloned())
    }

    pub(super) fn whole(&mut self, path: &[&str]) -> u64 {
        self.required(path, "a whole number", Value::as_u64)
    }

    pub(super) fn whole_or_absent(&mut self, path: &[&str]) -> Option<u64> {
        self.optional(path, "a whole number", Value::as_u64)
    }

    pub(super) fn number_or_absent(&mut self, path: &[&str]) -> Option<f64> {
        self.optional(path, "a number", Value::as_f64)
    }

    pub(super) fn text_or_absent(&mut self, path: &[&str]) -> Option<String> {
        self.optional(path, "a string", |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn flag_or_absent(&mut self, path: &[&str]) -> Option<bool> {
        self.optional(path, "true or false", Value::as_bool)
    }
}
