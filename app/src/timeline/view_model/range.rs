//! Totals over selected events.

use super::curves::Curves;

/// What happened between two events, both included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeTotals {
    /// Number of events.
    pub events: u64,
    /// From the first event until the one after the last, ns.
    pub length_ns: u64,
    /// Tensors allocated.
    pub allocations: u64,
    /// Their requested bytes.
    pub allocated_bytes: u64,
    /// Tensors freed.
    pub frees: u64,
    /// Their requested bytes.
    pub freed_bytes: u64,
    /// Live bytes after the last event minus before the first.
    pub net_bytes: i64,
    /// Most live bytes after any of them.
    pub peak_live_bytes: u64,
    /// The event after which that was.
    pub peak_event: u32,
}

/// Totals over the events `first..=last`, as far as there are such.
pub fn totals(curves: &Curves, (first, last): (u32, u32)) -> Option<RangeTotals> {
    let last = (last as usize).min(curves.n_events().checked_sub(1)?);
    let first = (first as usize).min(last);
    let timeline = curves.timeline();
    let mut totals = RangeTotals {
        events: (last - first + 1) as u64,
        length_ns: curves.edge_ns(last + 2) - curves.edge_ns(first + 1),
        ..RangeTotals::default()
    };
    for event in first..=last {
        let bytes = curves.bytes(timeline.events.tensor[event]);
        if timeline.events.is_alloc[event] == 0 {
            totals.frees += 1;
            totals.freed_bytes += bytes;
        } else {
            totals.allocations += 1;
            totals.allocated_bytes += bytes;
        }
    }
    let extremes = curves.extremes(first + 1..=last + 1);
    totals.net_bytes = curves.live(last + 1).cast_signed() - curves.live(first).cast_signed();
    totals.peak_live_bytes = extremes.high_live;
    totals.peak_event = super::num::to_u32(extremes.highest - 1);
    Some(totals)
}
