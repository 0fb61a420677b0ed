//! The tensors that are alive at an event, or in a range of events, filtered and sorted.

use simulator::wire::timeline::{BEFORE, NEVER, NO_LAYER, Tensors, Timeline};

use simulator::order::sort_places;

/// The columns that the table can be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Tensor,
    Category,
    Block,
    Layer,
    Primitive,
    Size,
    Born,
    Dies,
}

/// By which column, and which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub column: Column,
    pub descending: bool,
}

impl Order {
    /// Largest first.
    pub(crate) const LARGEST: Self = Self { column: Column::Size, descending: true };

    /// The order after a click on a heading: the other way round, or that column's natural way.
    pub(crate) fn clicked(self, column: Column) -> Self {
        let descending =
            if self.column == column { !self.descending } else { column == Column::Size };
        Self { column, descending }
    }
}

/// Events, first and last; one event is both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub first: u32,
    pub last: u32,
}

impl Span {
    /// One event.
    pub(crate) const fn at(event: u32) -> Self {
        Self { first: event, last: event }
    }

    /// The same events, as far as there are `n`.
    pub(crate) fn within(self, n: usize) -> Self {
        let end = u32::try_from(n).unwrap_or(u32::MAX).saturating_sub(1);
        Self { first: self.first.min(end), last: self.last.min(end) }
    }

    pub(crate) const fn is_one(self) -> bool {
        self.first == self.last
    }
}

/// What is alive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    /// Indices into the tensors, in the table's order, those that the filter keeps.
    pub rows: Vec<u32>,
    /// How many are alive, filtered out or not.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the largest.
    pub largest: u64,
}

/// Whether a tensor is alive right after one of the events.
fn is_alive(tensors: &Tensors, index: usize, span: Span) -> bool {
    let (born, freed) = (tensors.born[index], tensors.freed[index]);
    (born == BEFORE || born <= span.last) && (freed == NEVER || span.first < freed)
}

/// The tensors alive right after one of the events.
pub(crate) fn live(timeline: &Timeline, span: Span, filter: &str, order: Order) -> Live {
    let tensors = &timeline.tensors;
    let keeps = matching_labels(timeline, filter);
    let mut live = Live::default();
    for index in 0..tensors.len() {
        if !is_alive(tensors, index, span) {
            continue;
        }
        live.count += 1;
        live.bytes += tensors.bytes[index];
        live.largest = live.largest.max(tensors.bytes[index]);
        let is_kept = keeps.as_ref().is_none_or(|keeps| {
            let keeps = |label: u32| keeps.get(label as usize).copied().unwrap_or(false);
            keeps(tensors.name[index])
                || keeps(tensors.block[index])
                || keeps(tensors.primitive[index])
        });
        if is_kept {
            live.rows.push(u32::try_from(index).unwrap_or(u32::MAX));
        }
    }
    sort(timeline, &mut live.rows, order);
    live
}

/// For each label whether it holds the filter; `None` when everything passes.
fn matching_labels(timeline: &Timeline, filter: &str) -> Option<Vec<bool>> {
    let filter = filter.trim().to_lowercase();
    if filter.is_empty() {
        return None;
    }
    Some(timeline.labels.iter().map(|label| label.to_lowercase().contains(&filter)).collect())
}

fn sort(timeline: &Timeline, rows: &mut [u32], order: Order) {
    let tensors = &timeline.tensors;
    let label = |column: &[u32], row: u32| {
        timeline.labels.get(column[row as usize] as usize).map_or("", String::as_str)
    };
    let by_label = |column: &[u32], [a, b]: [u32; 2]| label(column, a).cmp(label(column, b));
    let by_event = |column: &[u32], rows: [u32; 2]| {
        let [a, b] = rows.map(|row| column[row as usize]);
        a.cmp(&b)
    };
    // What is absent or before the step has the largest number and comes first.
    let after_none = |column: &[u32], rows: [u32; 2]| {
        let [a, b] = rows.map(|row| column[row as usize].wrapping_add(1));
        a.cmp(&b)
    };
    sort_places(rows, &|a, b| match order.column {
        Column::Tensor => by_label(&tensors.name, [a, b]),
        Column::Category => tensors.category[a as usize].cmp(&tensors.category[b as usize]),
        Column::Block => by_label(&tensors.block, [a, b]),
        Column::Layer => after_none(&tensors.layer, [a, b]),
        Column::Primitive => by_label(&tensors.primitive, [a, b]),
        Column::Size => tensors.bytes[a as usize].cmp(&tensors.bytes[b as usize]),
        Column::Born => after_none(&tensors.born, [a, b]),
        Column::Dies => by_event(&tensors.freed, [a, b]),
    });
    if order.descending {
        rows.reverse();
    }
}

/// The layer, for tensors inside the repeated layers.
pub(crate) fn layer(tensors: &Tensors, row: u32) -> Option<u32> {
    tensors.layer.get(row as usize).copied().filter(|layer| *layer != NO_LAYER)
}

/// The rows of a long table that are in sight, with some to spare: `first..last`.
pub(crate) fn window(scroll: f64, height: f64, row_height: f64, n: usize) -> (usize, usize) {
    const SPARE: usize = 6;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let index = |pixels: f64| (pixels / row_height).max(0.0) as usize;
    let first = index(scroll).saturating_sub(SPARE).min(n);
    let last = (index(scroll + height) + 1 + SPARE).min(n);
    (first, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three tensors: one for ever, one over events 0 to 2, one from event 1 on.
    fn timeline() -> Timeline {
        Timeline {
            labels: ["weight", "x", "y", "linear", "mlp"].map(String::from).into(),
            tensors: Tensors {
                bytes: Vec::from([10, 30, 20]),
                born: Vec::from([BEFORE, 0, 1]),
                freed: Vec::from([NEVER, 2, NEVER]),
                category: Vec::from([1, 5, 5]),
                name: Vec::from([0, 1, 2]),
                primitive: Vec::from([3, 3, 3]),
                block: Vec::from([4, 4, 4]),
                layer: Vec::from([NO_LAYER, 1, 0]),
            },
            ..Timeline::default()
        }
    }

    #[test]
    fn alive_is_from_birth_until_the_free() {
        let timeline = timeline();
        let at = |event| live(&timeline, Span::at(event), "", Order::LARGEST);
        assert_eq!(at(0).rows, [1, 0]);
        assert_eq!(at(1), Live { rows: Vec::from([1, 2, 0]), count: 3, bytes: 60, largest: 30 });
        assert_eq!(at(2), Live { rows: Vec::from([2, 0]), count: 2, bytes: 30, largest: 20 });
    }

    #[test]
    fn a_range_holds_all_that_live_in_it() {
        let timeline = timeline();
        let rows = |first, last| live(&timeline, Span { first, last }, "", Order::LARGEST).rows;
        assert_eq!(rows(0, 1), [1, 2, 0]);
        assert_eq!(rows(2, 9), [2, 0]);
        assert_eq!(Span { first: 5, last: 9 }.within(7), Span { first: 5, last: 6 });
        assert_eq!(Span::at(5).within(0), Span::at(0));
    }

    #[test]
    fn the_filter_hides_rows_but_counts_them() {
        let at = |filter| live(&timeline(), Span::at(1), filter, Order::LARGEST);
        let found = at("WEIGHT");
        assert_eq!(found, Live { rows: Vec::from([0]), count: 3, bytes: 60, largest: 30 });
        assert_eq!(at("linear").rows.len(), 3);
        assert_eq!(at("nothing").rows.len(), 0);
    }

    #[test]
    fn what_was_there_before_sorts_first() {
        let rows = |order| live(&timeline(), Span::at(1), "", order).rows;
        let order = Order::LARGEST.clicked(Column::Born);
        assert_eq!(rows(order), [0, 1, 2]);
        let order = order.clicked(Column::Born);
        assert_eq!(rows(order), [2, 1, 0]);
        let order = order.clicked(Column::Layer);
        assert_eq!(rows(order), [0, 2, 1]);
    }

    #[test]
    fn only_rows_in_sight_are_built() {
        assert_eq!(window(0.0, 100.0, 20.0, 1000), (0, 12));
        assert_eq!(window(2000.0, 100.0, 20.0, 1000), (94, 112));
        assert_eq!(window(1e9, 100.0, 20.0, 10), (10, 10));
        assert_eq!(window(0.0, 0.0, 20.0, 3), (0, 3));
    }
}
