//! Every pipeline stage at its highest point.

use crate::order;
use crate::scenario::ValidScenario;
use crate::tape::{Prim, Scope};
use crate::tide::{StageSummary, stages};
use crate::units::Bytes;
use crate::wire::report::{CategoryBytes, RankReport};
use crate::wire::timeline::{Category, PhaseKind};

use super::Footprint;

/// One entry a stage; none without a pipeline.
pub fn ranks(scenario: &ValidScenario, footprint: &Footprint) -> Vec<RankReport> {
    stages(scenario).iter().map(|summary| rank(summary, footprint)).collect()
}

/// The stage with the highest peak; of equal ones the first.
pub fn highest(ranks: &[RankReport]) -> Option<&RankReport> {
    let peak = ranks.iter().map(|rank| rank.peak_allocated_bytes).max()?;
    ranks.iter().find(|rank| rank.peak_allocated_bytes == peak)
}

fn rank(summary: &StageSummary, footprint: &Footprint) -> RankReport {
    let peak = Bytes::new(summary.first_peak.max(summary.steady_peak));
    let rows = Category::ALL.into_iter().zip(summary.highest.at);
    let mut categories: Vec<CategoryBytes> = rows
        .filter(|(_, bytes)| 0 < *bytes)
        .map(|(category, bytes)| CategoryBytes {
            category,
            bytes: Bytes::new(bytes.unsigned_abs()),
        })
        .collect();
    order::sort_by(&mut categories, |a, b| b.bytes.cmp(&a.bytes));
    let crest = summary.highest.crest;
    RankReport {
        stage: summary.stage,
        outcome: footprint.outcome(peak),
        peak_allocated_bytes: peak,
        step: summary.step,
        phase: crest.map_or(PhaseKind::Build, |crest| crest.phase),
        micro_batch: crest.map_or(0, |crest| crest.micro_batch),
        in_flight: summary.in_flight,
        what: crest.map_or_else(String::new, |crest| place(&crest.scope, crest.prim, false)),
        categories,
        course_bytes: summary.course.iter().copied().map(Bytes::new).collect(),
    }
}

/// What an operation is, in words, with its layer or without.
pub fn place(scope: &Scope, prim: Prim, with_layer: bool) -> String {
    let layer = scope.layer.filter(|_| with_layer).map(|layer| format!("layer {layer}"));
    let place = [layer.as_deref().unwrap_or(""), scope.block.word(), scope.module];
    let place = place.iter().filter(|part| !part.is_empty());
    let place = place.copied().collect::<Vec<&str>>().join(" ");
    let suffix = if scope.backward { ".backward" } else { "" };
    format!("{place} · {}{suffix}", prim.word())
}
