//! One row for each allocation and free, with units in the header and the assumptions above it.

use core::fmt::Write as _;

use crate::wire::Report;
use crate::wire::timeline::{BEFORE, NO_LAYER, Timeline};

use super::{Names, remarks};

/// Columns of the table.
const HEADER: &str = "event,time (ns),phase,micro-batch,action,size (B),live requested (B),\
                      allocated (B),reserved (B),category,tensor,primitive,block,layer";

/// A step as comma-separated values (RFC 4180), with comment lines (`#`) before the header.
///
/// Tensors that exist when the step starts come first, as `before`.
pub fn csv(report: &Report, timeline: &Timeline) -> String {
    let mut text = String::new();
    for remark in remarks(report) {
        push(&mut text, format_args!("# {remark}\n"));
    }
    let scenario = serde_json::to_string(&report.scenario).unwrap_or_default();
    push(&mut text, format_args!("# scenario: {scenario}\n{HEADER}\n"));
    before(&mut text, timeline);
    events(&mut text, timeline);
    text
}

fn before(text: &mut String, timeline: &Timeline) {
    let mut live = 0;
    for (tensor, bytes) in timeline.tensors.bytes.iter().enumerate() {
        if timeline.tensors.born[tensor] == BEFORE {
            live += bytes;
            push(text, format_args!(",,,,before,{bytes},{live},,,"));
            describe(text, timeline, tensor);
        }
    }
}

fn events(text: &mut String, timeline: &Timeline) {
    let columns = &timeline.events;
    let names = Names(timeline);
    let mut live = timeline.base_bytes;
    for event in 0..columns.len() {
        let tensor = columns.tensor[event] as usize;
        let bytes = timeline.tensors.bytes[tensor];
        let is_alloc = columns.is_alloc[event] == 1;
        live = if is_alloc { live + bytes } else { live.saturating_sub(bytes) };
        let (phase, micro_batch) =
            names.phase(event).map_or(("", 0), |phase| (phase.kind.word(), phase.micro_batch));
        push(
            text,
            format_args!(
                "{event},{},{phase},{micro_batch},{},{bytes},{live},{},{},",
                columns.time_ns[event],
                if is_alloc { "alloc" } else { "free" },
                columns.allocated[event],
                columns.reserved[event],
            ),
        );
        describe(text, timeline, tensor);
    }
}

/// The last columns: what the tensor is.
fn describe(text: &mut String, timeline: &Timeline, tensor: usize) {
    let names = Names(timeline);
    let tensors = &timeline.tensors;
    let category = names.category(tensor).map_or("", |category| category.word());
    push(
        text,
        format_args!(
            "{category},{},{},{},",
            quoted(names.label(tensors.name[tensor])),
            quoted(names.label(tensors.primitive[tensor])),
            quoted(names.label(tensors.block[tensor])),
        ),
    );
    match tensors.layer[tensor] {
        NO_LAYER => push(text, format_args!("\n")),
        layer => push(text, format_args!("{layer}\n")),
    }
}

/// A field, in quotes where it must be.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

fn push(text: &mut String, part: core::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    if text.write_fmt(part).is_err() {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        assert_eq!(quoted("mul"), "mul");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("a \"b\""), "\"a \"\"b\"\"\"");
    }
}
