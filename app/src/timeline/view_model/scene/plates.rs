//! Short texts on plates of paper over the plot, placed so that they do not cover each other.

use super::super::layout::Area;
use super::{Anchor, Ink, Mark, SMALL, Style, rect};

const HEIGHT: f64 = 16.0;

/// Plates placed so far.
pub(super) struct Plates<'a> {
    within: Area,
    style: &'a Style<'a>,
    placed: Vec<Area>,
}

impl<'a> Plates<'a> {
    pub(super) fn new(within: Area, style: &'a Style<'a>) -> Self {
        Self { within, style, placed: Vec::new() }
    }

    pub(super) fn style(&self) -> &'a Style<'a> {
        self.style
    }

    /// Puts a text at the first of some places (left edge, middle line; an infinite left edge is
    /// the right end) where it covers no other; at the last one if it covers some everywhere.
    pub(super) fn put(
        &mut self,
        marks: &mut Vec<Mark>,
        text: String,
        ink: Ink,
        places: &[(f64, f64)],
    ) {
        let w = (self.style.measure)(&text, SMALL, true) + 10.0;
        let mut boxes = places.iter().map(|&(x, y)| self.held(x, y, w));
        let free = boxes.clone().find(|area| !self.placed.iter().any(|other| meet(area, other)));
        let Some(area) = free.or_else(|| boxes.next_back()) else { return };
        self.placed.push(area);
        marks.push(Mark::Fill { path: rect(area), ink: Ink::Paper, alpha: 0.86 });
        marks.push(Mark::Text {
            at: (area.x + w / 2.0, area.y + HEIGHT / 2.0),
            text,
            ink,
            size: SMALL,
            anchor: Anchor::Middle,
            bold: true,
        });
    }

    /// Keeps a plate within the plot.
    fn held(&self, x: f64, y: f64, w: f64) -> Area {
        let within = self.within;
        let x = x.min(within.right() - w - 3.0).max(within.x + 3.0);
        let y = (y - HEIGHT / 2.0).min(within.bottom() - HEIGHT - 2.0).max(within.y + 2.0);
        Area { x, y, w, h: HEIGHT }
    }
}

fn meet(a: &Area, b: &Area) -> bool {
    a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom()
}
