//! A step in the formats of other tools: trace events for Perfetto, a snapshot for PyTorch's
//! `memory_viz`, rows for a spreadsheet. Text and bytes; writing them is the caller's.

mod csv;
mod pickle;
mod placement;
mod snapshot;
mod trace_events;

pub use csv::csv;
pub use snapshot::snapshot_pickle;
pub use trace_events::chrome_trace;

use crate::wire::timeline::{Category, NO_LAYER, Phase, Timeline};

/// The names that a timeline gives to what stands in one of its rows.
struct Names<'a>(&'a Timeline);

impl<'a> Names<'a> {
    fn label(&self, index: u32) -> &'a str {
        self.0.labels.get(index as usize).map_or("", String::as_str)
    }

    /// The block with its layer, such as `layer 3 self_attn`.
    fn place(&self, block: u32, layer: u32) -> String {
        match (layer, self.label(block)) {
            (NO_LAYER, block) => block.to_owned(),
            (layer, "") => format!("layer {layer}"),
            (layer, block) => format!("layer {layer} {block}"),
        }
    }

    /// The category of a tensor.
    fn category(&self, tensor: usize) -> Option<Category> {
        let number = usize::from(*self.0.tensors.category.get(tensor)?);
        Category::ALL.get(number).copied()
    }

    /// The phase in which an event lies.
    fn phase(&self, event: usize) -> Option<&'a Phase> {
        let lies_in = |phase: &&Phase| {
            (phase.first_event as usize..phase.end_event as usize).contains(&event)
        };
        self.0.phases.iter().find(lies_in)
    }
}

/// What every export says about itself, one sentence each.
fn remarks(report: &crate::wire::Report) -> [String; 3] {
    let engine = &report.engine;
    [
        format!(
            "Predicted by Tidemark {} (prediction rules {}); nothing here was recorded.",
            engine.version, engine.predictions
        ),
        "Memory follows the order in which the host issues operations; times are the host's where \
         not said otherwise."
            .to_owned(),
        "Live bytes are requested bytes; allocated and reserved bytes are the caching allocator's."
            .to_owned(),
    ]
}
