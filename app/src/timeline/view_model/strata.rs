//! Hairlines between the larger tensors of a window, so that layers show as strata.
//!
//! Only tensors a few pixels high and wide get a line. One pass over the window's events keeps the
//! sum of small tensors in each gap between the large ones; a column is then a sum over the large.
//! A table from each tensor to its gap makes that pass cheap.

use super::columns::Column;
use super::curves::Curves;
use super::num::to_u32;
use simulator::order::sort_places;

/// Most tensors that get a line.
const MAX_TENSORS: usize = 400;
/// Most points of all lines together.
const MAX_POINTS: usize = 24_000;

/// The upper edge of a tensor: points (pixel, bytes), steps already made.
pub type Edge = Vec<(f64, u64)>;

/// Which tensors deserve a line.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    /// Fewest bytes.
    pub bytes: u64,
    /// Shortest visible life, CSS pixels.
    pub width: f64,
}

/// Upper edges of the window's large tensors.
pub fn strata(curves: &Curves, columns: &[Column], threshold: Threshold) -> Vec<Edge> {
    let large = large_tensors(curves, columns, threshold);
    let Some(first) = columns.first() else { return Vec::new() };
    let mut sweep = Sweep::new(curves, large, first.state);
    let mut edges: Vec<Edge> = Vec::new();
    let mut state = first.state;
    let mut points = 0;
    for column in columns {
        let changed = column.state != state || column == first;
        sweep.advance(curves, state..column.state);
        state = column.state;
        points += sweep.draw(curves, column, changed, &mut edges);
        if points > MAX_POINTS {
            break;
        }
    }
    edges.retain(|edge| edge.len() > 1);
    edges
}

/// Large tensors in stacking order.
fn large_tensors(curves: &Curves, columns: &[Column], threshold: Threshold) -> Vec<u32> {
    let seen_px = |tensor: u32| {
        let (born, freed) = curves.lifetime(tensor);
        let first = columns.partition_point(|column| column.state < born);
        let end = columns.partition_point(|column| column.state < freed);
        if first < end { columns[end - 1].x1 - columns[first].x0 } else { 0.0 }
    };
    let mut large: Vec<u32> = (curves.order().iter().copied())
        .filter(|&tensor| curves.bytes(tensor) >= threshold.bytes)
        .filter(|&tensor| seen_px(tensor) >= threshold.width)
        .collect();
    if large.len() > MAX_TENSORS {
        sort_places(&mut large, &|a, b| curves.bytes(b).cmp(&curves.bytes(a)));
        large.truncate(MAX_TENSORS);
        sort_places(&mut large, &|a, b| curves.rank(a).cmp(&curves.rank(b)));
    }
    large
}

struct Sweep {
    /// Large tensors in stacking order.
    large: Vec<u32>,
    /// By rank: twice the gap of a small tensor, or twice its own place plus one of a large one.
    slots: Vec<u32>,
    live: Vec<bool>,
    /// Bytes of small live tensors below each large one, down to the next.
    gaps: Vec<u64>,
    /// The line that each large tensor is drawing.
    edge: Vec<Option<usize>>,
}

impl Sweep {
    fn new(curves: &Curves, large: Vec<u32>, state: usize) -> Self {
        let n = large.len();
        let mut slots = Vec::with_capacity(curves.order().len());
        let mut place = 0;
        for &tensor in curves.order() {
            let is_large = large.get(place) == Some(&tensor);
            slots.push(2 * to_u32(place) + u32::from(is_large));
            place += usize::from(is_large);
        }
        let mut sweep =
            Self { large, slots, live: vec![false; n], gaps: vec![0; n + 1], edge: vec![None; n] };
        for &tensor in curves.order() {
            if curves.is_live(tensor, state) {
                sweep.change(curves, tensor, true);
            }
        }
        sweep
    }

    fn change(&mut self, curves: &Curves, tensor: u32, is_alloc: bool) {
        let slot = self.slots[curves.rank(tensor) as usize];
        let place = (slot / 2) as usize;
        if slot % 2 == 1 {
            self.live[place] = is_alloc;
        } else if is_alloc {
            self.gaps[place] += curves.bytes(tensor);
        } else {
            self.gaps[place] -= curves.bytes(tensor);
        }
    }

    fn advance(&mut self, curves: &Curves, events: std::ops::Range<usize>) {
        let events_columns = &curves.timeline().events;
        for event in events {
            let is_alloc = events_columns.is_alloc[event] != 0;
            self.change(curves, events_columns.tensor[event], is_alloc);
        }
    }

    /// Carries every line over a column; returns how many points that took.
    fn draw(
        &mut self,
        curves: &Curves,
        column: &Column,
        changed: bool,
        edges: &mut Vec<Edge>,
    ) -> usize {
        if !changed {
            for &index in self.edge.iter().flatten() {
                if let Some(point) = edges[index].last_mut() {
                    point.0 = column.x1;
                }
            }
            return 0;
        }
        let mut top = curves.floor_bytes();
        let mut points = 0;
        for (place, &tensor) in self.large.iter().enumerate() {
            top += self.gaps[place];
            if !self.live[place] {
                self.edge[place] = None;
                continue;
            }
            top += curves.bytes(tensor);
            let index = *self.edge[place].get_or_insert_with(|| {
                edges.push(Edge::new());
                edges.len() - 1
            });
            let edge = &mut edges[index];
            match edge.last_mut() {
                Some(point) if point.1 == top => point.0 = column.x1,
                _ => {
                    edge.push((column.x0, top));
                    edge.push((column.x1, top));
                    points += 2;
                }
            }
        }
        points
    }
}
