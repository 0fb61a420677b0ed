//! How a field's value is read from the scenario and written to it, and how numbers are written.

use leptos::prelude::*;
use simulator::wire::Scenario;

use super::shell::Reset;
use crate::erased::memo;
use crate::field::FieldName;
use crate::format::{self, Unit};
use crate::state::Choice;

/// A field's place in the scenario.
pub(super) struct Access<T: 'static> {
    pub field: FieldName,
    pub get: fn(&Scenario) -> T,
    pub set: fn(&mut Scenario, T),
}

impl<T> Clone for Access<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Access<T> {}

impl<T: Clone + PartialEq + Send + Sync + 'static> Access<T> {
    /// The value, as it is now.
    pub(super) fn value(self) -> Memo<T> {
        let choice = expect_context::<Choice>();
        memo(move || choice.scenario.with(self.get))
    }

    /// Whether it differs from what the user started from, and the way back.
    pub(super) fn reset(self) -> Reset {
        let choice = expect_context::<Choice>();
        let changed =
            memo(move || choice.scenario.with(self.get) != choice.baseline.with(self.get));
        let back = move |()| {
            let value = choice.baseline.with_untracked(self.get);
            choice.set(|scenario| (self.set)(scenario, value));
        };
        Reset { changed: changed.into(), back: Callback::new(back) }
    }

    /// Sets it, as part of this field's gesture.
    pub(super) fn edit(self, choice: Choice, value: T) {
        choice.edit(self.field.id(), |scenario| (self.set)(scenario, value));
    }
}

/// How a value is written in a box.
pub(super) struct Notation<T: 'static> {
    pub write: fn(&T, Unit) -> String,
    pub read: fn(&str, Unit) -> Option<T>,
    /// What to say to a text that is none.
    pub complaint: fn(&crate::words::Form) -> &'static str,
    /// The unit shown beside the label; empty for none.
    pub unit: fn(Unit) -> &'static str,
}

impl<T> Clone for Notation<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Notation<T> {}

/// Whole numbers.
pub(super) const COUNT: Notation<u64> = Notation {
    write: |value, _| value.to_string(),
    read: |text, _| format::parse_count(text),
    complaint: |form| form.whole_number,
    unit: |_| "",
};

/// Whole numbers that stand for another value at 0, which is then left out.
pub(super) const COUNT_OR_NONE: Notation<u64> = Notation {
    write: |value, _| if *value == 0 { String::new() } else { value.to_string() },
    read: |text, _| if text.trim().is_empty() { Some(0) } else { format::parse_count(text) },
    complaint: |form| form.whole_number,
    unit: |_| "",
};

/// Whole numbers of MiB, whatever the page's unit, as PyTorch takes them.
pub(super) const MEBIBYTES: Notation<u64> = Notation { unit: |_| "MiB", ..COUNT };

/// Sizes of memory, in the page's unit.
pub(super) const SIZE: Notation<u64> = Notation {
    write: |value, unit| format::editable_size(*value, unit),
    read: format::parse_size,
    complaint: |form| form.size,
    unit: Unit::word,
};

/// Sizes that may be left out.
pub(super) const OPTIONAL_SIZE: Notation<Option<u64>> = Notation {
    write: |value, unit| value.map(|v| format::editable_size(v, unit)).unwrap_or_default(),
    read: |text, unit| match text.trim() {
        "" => Some(None),
        text => format::parse_size(text, unit).map(Some),
    },
    complaint: |form| form.size,
    unit: Unit::word,
};

/// Decimal numbers that may be left out.
pub(super) const OPTIONAL_DECIMAL: Notation<Option<f64>> = Notation {
    write: |value, _| value.map(|v| v.to_string()).unwrap_or_default(),
    read: |text, _| match text.trim() {
        "" => Some(None),
        text => format::parse_float(text).map(Some),
    },
    complaint: |form| form.number,
    unit: |_| "",
};

/// Texts, taken as they are.
pub(super) const TEXT: Notation<String> = Notation {
    write: |text, _| text.clone(),
    read: |text, _| Some(text.to_owned()),
    complaint: |_| "",
    unit: |_| "",
};
