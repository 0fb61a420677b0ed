//! The chart as a table: each phase at the moment of its peak.

use simulator::wire::timeline::{Category, Phase};

use super::band::Band;
use super::curves::Curves;

/// Categories of live tensors, in stacking order.
pub const CATEGORIES: [Category; 7] = [
    Category::Weights,
    Category::OptimizerStates,
    Category::Gradients,
    Category::Inputs,
    Category::Activations,
    Category::Logits,
    Category::Temporaries,
];

/// A phase at its peak of live bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseRow {
    /// The phase.
    pub phase: Phase,
    /// The event after which its live bytes are highest.
    pub peak_event: u32,
    /// Bytes by category then, as in `CATEGORIES`.
    pub categories: [u64; CATEGORIES.len()],
    /// Live bytes then.
    pub live: u64,
    /// Most reserved bytes in the phase.
    pub reserved: u64,
    /// From its first event to the next phase, ns.
    pub length_ns: u64,
}

/// A row for each phase.
pub fn phase_rows(curves: &Curves) -> Vec<PhaseRow> {
    let phases = curves.timeline().phases.iter();
    phases
        .filter(|phase| phase.first_event < phase.end_event)
        .map(|phase| {
            let (first, end) = (phase.first_event as usize, phase.end_event as usize);
            let run = curves.extremes(first + 1..=end);
            let bands = curves.bands(run.highest);
            let sum = |category: Category| {
                let of_category = Band::ALL.into_iter().filter(|band| band.category() == category);
                of_category.map(|band| bands[band.index()]).sum()
            };
            PhaseRow {
                phase: phase.clone(),
                peak_event: super::num::to_u32(run.highest - 1),
                categories: CATEGORIES.map(sum),
                live: run.high_live,
                reserved: run.high_reserved,
                length_ns: curves.edge_ns(end + 1) - curves.edge_ns(first + 1),
            }
        })
        .collect()
}
