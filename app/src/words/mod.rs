//! Every sentence of the page, once per language. A missing one does not compile.
//!
//! The simulator speaks in codes and numbers; only here do they become sentences.

mod en;
mod en_fields;
mod zh;
mod zh_faults;
mod zh_fields;

use simulator::wire::report::{Outcome, StepKind, TimeMode};
use simulator::wire::timeline::{Category, PhaseKind};
use simulator::wire::{Fault, Note};

use crate::field::{FieldName, FieldsetName};
use crate::state::Tab;

pub(crate) use en::EN;
pub(crate) use zh::ZH;

/// All words of one language.
pub(crate) struct Words {
    pub shell: Shell,
    pub form: Form,
    pub verdict: VerdictWords,
    pub tables: Tables,
    pub ranks: RankWords,
    pub help: Help,
    pub share: Share,
    pub category: fn(Category) -> &'static str,
    pub phase: fn(PhaseKind) -> &'static str,
    /// The same within a sentence.
    pub in_phase: fn(PhaseKind) -> &'static str,
    pub step: fn(StepKind) -> &'static str,
    pub tab: fn(Tab) -> &'static str,
    pub fieldset: fn(FieldsetName) -> &'static str,
    pub field: fn(FieldName) -> FieldWords,
    /// The label of a key of `config.json`, where it has a name for people.
    pub config_key: fn(&str) -> Option<&'static str>,
    /// The name of a preset, by its id, where the simulator's own is in another language.
    pub preset: fn(&str) -> Option<&'static str>,
    pub fault: fn(&Fault) -> String,
    pub note: fn(&Note) -> String,
    /// The name of a figure, by its id.
    pub figure: fn(&str) -> Option<&'static str>,
}

/// The frame around the page.
pub(crate) struct Shell {
    pub title: &'static str,
    pub skip: &'static str,
    pub undo: &'static str,
    pub redo: &'static str,
    pub share: &'static str,
    pub export: &'static str,
    pub unit: &'static str,
    pub language: &'static str,
    pub theme: &'static str,
    pub light: &'static str,
    pub dark: &'static str,
    pub help: &'static str,
    pub close: &'static str,
    pub inputs: &'static str,
    pub done: &'static str,
    pub dismiss: &'static str,
    pub first_or_steady: &'static str,
    pub not_found: &'static str,
    pub not_found_text: &'static str,
    pub to_plan: &'static str,
    pub link_newer: &'static str,
    pub link_broken: &'static str,
    /// Peak then, peak now.
    pub prediction_changed: fn(&str, &str) -> String,
    pub link_loading: &'static str,
    pub link_missing: &'static str,
    pub worker_failed: &'static str,
}

/// The form.
pub(crate) struct Form {
    pub title: &'static str,
    pub search: &'static str,
    pub preset: &'static str,
    pub preset_own: &'static str,
    pub more: &'static str,
    pub reset: &'static str,
    pub whole_number: &'static str,
    pub number: &'static str,
    pub size: &'static str,
    /// What a mend sets: `Set to 4096`.
    pub mend: fn(&str) -> String,
    /// The same of another field: its label, the value.
    pub mend_of: fn(&str, &str) -> String,
    /// A mend that leaves the field out.
    pub mend_off: &'static str,
    pub drop_here: &'static str,
    pub drop_now: &'static str,
    pub choose_file: &'static str,
    pub paste: &'static str,
    pub paste_title: &'static str,
    pub paste_help: &'static str,
    pub paste_use: &'static str,
    pub import_failed: fn(&str) -> String,
    pub imported: fn(&str) -> String,
    pub edit_shape: &'static str,
    pub own_model: &'static str,
    pub other_faults: &'static str,
    pub catalog_facts: fn(&str, &str) -> String,
    /// Parameters that the simulated rank keeps.
    pub rank_facts: fn(&str) -> String,
    pub trained_facts: fn(&str) -> String,
    pub momentum_none: &'static str,
    pub as_the_input: &'static str,
    pub optional: &'static str,
    pub choices: Choices,
}

/// The names of alternatives.
pub(crate) struct Choices {
    pub fp32: &'static str,
    pub bf16: &'static str,
    pub amp_bf16: &'static str,
    pub amp_fp16: &'static str,
    pub reduce_own: &'static str,
    pub foreach: &'static str,
    pub fused: &'static str,
    pub looped: &'static str,
    pub checkpoint_none: &'static str,
    pub checkpoint_full: &'static str,
    pub checkpoint_selective: &'static str,
    pub distributed_optimizer: &'static str,
    pub sdpa: &'static str,
    pub eager: &'static str,
    pub loss_5: &'static str,
    pub loss_4: &'static str,
    pub loss_fused: &'static str,
}

/// One field.
#[derive(Clone, Copy)]
pub(crate) struct FieldWords {
    pub label: &'static str,
    pub help: &'static str,
}

/// The verdict.
pub(crate) struct VerdictWords {
    pub heading: &'static str,
    pub outcome: fn(Outcome) -> &'static str,
    pub sentence: fn(&Sentence<'_>) -> String,
    pub out_of_memory: fn(&OomSentence<'_>) -> String,
    pub speed: fn(&SpeedSentence<'_>) -> String,
    pub host_bound: &'static str,
    pub mode: fn(TimeMode) -> &'static str,
    pub mode_help: fn(TimeMode) -> &'static str,
    pub unverified: &'static str,
    pub waiting: &'static str,
    pub faults: fn(usize) -> String,
    pub gauge: fn(&str, &str, &str) -> String,
}

/// What the verdict's sentence says; all sizes are in the same unit, which stands once.
pub(crate) struct Sentence<'a> {
    pub outcome: Outcome,
    pub peak: &'a str,
    pub limit: &'a str,
    pub band: &'a str,
    /// Free, or missing when it does not fit.
    pub margin: &'a str,
    pub unit: &'a str,
    pub phase: &'a str,
    pub step: &'a str,
    pub by_cap: bool,
    /// The pipeline stage that it is about.
    pub stage: Option<u64>,
}

/// The request that failed.
pub(crate) struct OomSentence<'a> {
    pub size: &'a str,
    pub what: &'a str,
    pub phase: &'a str,
    pub step: &'a str,
}

/// How fast a step is.
pub(crate) struct SpeedSentence<'a> {
    pub step: &'a str,
    pub tokens: &'a str,
    pub mfu: Option<&'a str>,
}

/// Headings and notes of the tables.
pub(crate) struct Tables {
    pub tensor: &'static str,
    pub category: &'static str,
    pub primitive: &'static str,
    pub block: &'static str,
    pub layer: &'static str,
    pub size: &'static str,
    pub share: &'static str,
    pub born: &'static str,
    pub dies: &'static str,
    pub before: &'static str,
    pub never: &'static str,
    pub tensors: &'static str,
    pub phase: &'static str,
    pub start: &'static str,
    pub end: &'static str,
    pub peak: &'static str,
    pub time: &'static str,
    pub value: &'static str,
    pub formula: &'static str,
    pub source: &'static str,
    pub figure: &'static str,
    pub filter: &'static str,
    pub figures_filter: &'static str,
    /// Tensors, bytes, event, time.
    pub alive: fn(&str, &str, &str, &str) -> String,
    /// Tensors, bytes, events, time.
    pub alive_in: fn(&str, &str, &str, &str) -> String,
    pub cursor_range: &'static str,
    pub cursor_peak: &'static str,
    pub cursor_held: &'static str,
    pub cursor_hover: &'static str,
    pub to_peak: &'static str,
    pub peak_caption: fn(&str, &str) -> String,
    pub at_peak: &'static str,
    pub breakdown: &'static str,
    pub total: &'static str,
    pub forward: &'static str,
    pub backward: &'static str,
    pub optimizer: &'static str,
    pub idle: &'static str,
    pub step_time: &'static str,
    pub tokens_per_s: &'static str,
    pub mfu: &'static str,
    pub requested: &'static str,
    pub requested_help: &'static str,
    pub allocated: &'static str,
    pub allocated_help: &'static str,
    pub reserved: &'static str,
    pub reserved_help: &'static str,
    pub outside: &'static str,
    pub outside_help: &'static str,
    pub already: &'static str,
    pub already_help: &'static str,
    pub device: &'static str,
    pub device_help: &'static str,
    pub allocations: &'static str,
    pub allocations_help: &'static str,
    pub base: &'static str,
    pub base_help: &'static str,
    pub meaning: &'static str,
    pub micro_batch: fn(u32) -> String,
    pub no_figures: &'static str,
    pub empty: &'static str,
}

/// The pipeline's stages.
pub(crate) struct RankWords {
    pub stage: fn(u64) -> String,
    pub highest: &'static str,
    pub highest_is: fn(&StageSentence<'_>) -> String,
    pub in_flight: fn(u64) -> String,
    pub none: &'static str,
}

/// The highest point of the highest stage.
pub(crate) struct StageSentence<'a> {
    pub stage: u64,
    pub stages: usize,
    pub size: &'a str,
    pub phase: &'a str,
    pub micro_batch: u32,
    pub step: &'a str,
    pub what: &'a str,
    pub in_flight: u64,
}

/// The key help.
pub(crate) struct Help {
    pub title: &'static str,
    pub timeline: &'static str,
    pub page: &'static str,
    /// Keys, what they do.
    pub timeline_keys: &'static [(&'static str, &'static str)],
    pub page_keys: &'static [(&'static str, &'static str)],
}

/// Sharing and export.
pub(crate) struct Share {
    pub title: &'static str,
    pub long_link: &'static str,
    pub short_link: &'static str,
    pub make_short: &'static str,
    pub copy: &'static str,
    pub copied: &'static str,
    pub short_failed: fn(&str) -> String,
    pub note: &'static str,
    pub csv: &'static str,
    pub png: &'static str,
    pub svg: &'static str,
    pub json: &'static str,
    pub trace: &'static str,
    pub scenario: &'static str,
    pub print: &'static str,
}
