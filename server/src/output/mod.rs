//! Answers as text for people.

pub(crate) mod format;
pub(crate) mod report;
pub(crate) mod table;
