//! What the user chose, and nothing else: every other value of the page is derived from it.
//!
//! ```text
//! Choice (scenario, history) ─► faults ─► worker ─► Answers ─► memos ─► view
//! Settings (unit, language, theme)              Look (step, tab, view, hover)
//! ```

mod answers;
mod choice;
mod history;
mod look;
mod settings;

pub(crate) use answers::{Answer, Answers, Failure};
pub(crate) use choice::Choice;
pub(crate) use look::{Look, Tab};
pub(crate) use settings::{Language, Settings, Theme};
