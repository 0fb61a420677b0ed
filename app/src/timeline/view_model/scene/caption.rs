//! What a picture needs once it has left the page: a title, and the legend at the peak.

use simulator::wire::timeline::Category;

use super::super::curves::Curves;
use super::super::layout::Area;
use super::super::tip::occurring;
use super::{Anchor, Ink, Mark, SMALL, Style, rect};
use crate::format::size;

/// Height of the title's line, and of each line of the legend.
const LINE: f64 = 18.0;
const SWATCH: f64 = 10.0;
const GAP: f64 = 14.0;

/// A title above and a legend below a picture of some width.
#[derive(Clone, Debug)]
pub struct Caption {
    /// Title, from the picture's upper edge.
    pub title: Vec<Mark>,
    /// Height of the title.
    pub title_height: f64,
    /// Legend, from its own upper edge.
    pub legend: Vec<Mark>,
    /// Height of the legend.
    pub legend_height: f64,
}

/// The caption of a step.
pub fn caption(curves: &Curves, width: f64, title: &str, style: &Style<'_>) -> Caption {
    let heading = Mark::Text {
        at: (8.0, LINE / 2.0 + 2.0),
        text: title.to_owned(),
        ink: Ink::Text,
        size: SMALL + 2.0,
        anchor: Anchor::Start,
        bold: true,
    };
    let (mut x, mut y) = (8.0, LINE / 2.0);
    let mut legend = Vec::new();
    for (ink, name, bytes) in entries(curves, style) {
        let text = format!("{name} {}", size(bytes, style.unit));
        let w = SWATCH + 5.0 + (style.measure)(&text, SMALL, false);
        if x + w > width - 8.0 && x > 8.0 {
            (x, y) = (8.0, y + LINE);
        }
        let swatch = Area { x, y: y - SWATCH / 2.0, w: SWATCH, h: SWATCH };
        legend.push(Mark::Fill { path: rect(swatch), ink, alpha: 1.0 });
        if ink == Ink::Slack {
            legend.push(Mark::Hatch { path: rect(swatch), ink: Ink::Hatch, alpha: 1.0 });
        }
        legend.push(Mark::Text {
            at: (x + SWATCH + 5.0, y),
            text,
            ink: Ink::Text,
            size: SMALL,
            anchor: Anchor::Start,
            bold: false,
        });
        x += w + GAP;
    }
    let title_height = if title.is_empty() { 0.0 } else { LINE + 4.0 };
    Caption {
        title: if title.is_empty() { Vec::new() } else { Vec::from([heading]) },
        title_height,
        legend,
        legend_height: y + LINE / 2.0 + 2.0,
    }
}

/// Colour, name and bytes at the peak of each band that occurs.
fn entries(curves: &Curves, style: &Style<'_>) -> Vec<(Ink, &'static str, u64)> {
    let state = (curves.data.peak_event as usize + 1).min(curves.n_states() - 1);
    let bytes = curves.bands(state);
    let outside = style.words.category(Category::OutsidePool);
    let mut entries = Vec::from([(Ink::OutsidePool, outside, curves.floor_bytes())]);
    entries.extend(
        occurring(curves)
            .into_iter()
            .map(|band| (Ink::Band(band), style.words.band(band), bytes[band.index()])),
    );
    let slack = curves.reserved(state) - curves.live(state);
    entries.push((Ink::Slack, style.words.category(Category::Slack), slack));
    entries
}
