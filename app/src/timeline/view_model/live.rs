//! Which tensors are alive, and where each lies in the stack.

use super::band::Band;
use super::columns::Column;
use super::curves::Curves;
use simulator::order::sort_places;

/// What lies under a point of the chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// In use by other processes.
    AlreadyUsed,
    /// Context, kernels, libraries.
    OutsidePool,
    /// A live tensor.
    Tensor(u32),
    /// Reserved, and not handed out.
    Slack,
    /// Above everything that is held.
    Free,
}

/// What lies at a height of the stack at a state.
pub fn hit(curves: &Curves, state: usize, bytes: u64) -> Hit {
    let floor = curves.floor_bytes();
    if bytes < curves.data.already_used_bytes {
        return Hit::AlreadyUsed;
    }
    if bytes < floor {
        return Hit::OutsidePool;
    }
    let mut above = bytes - floor;
    for (band, size) in Band::ALL.into_iter().zip(curves.bands(state)) {
        if above < size {
            return in_band(curves, band, state, above).map_or(Hit::Slack, Hit::Tensor);
        }
        above -= size;
    }
    if bytes - floor < curves.reserved(state) { Hit::Slack } else { Hit::Free }
}

fn in_band(curves: &Curves, band: Band, state: usize, mut above: u64) -> Option<u32> {
    for &tensor in curves.in_band(band) {
        if !curves.is_live(tensor, state) {
            continue;
        }
        let size = curves.bytes(tensor);
        if above < size {
            return Some(tensor);
        }
        above -= size;
    }
    None
}

/// Live tensors at a state, from the bottom of the stack.
pub fn stacked(curves: &Curves, state: usize) -> impl Iterator<Item = u32> {
    curves.order().iter().copied().filter(move |&tensor| curves.is_live(tensor, state))
}

/// Live tensors after an event, the largest first; of equals, the lower in the stack first.
pub fn live_at(curves: &Curves, event: u32) -> Vec<u32> {
    let state = (event as usize + 1).min(curves.n_states() - 1);
    let mut live: Vec<u32> = stacked(curves, state).collect();
    sort_places(&mut live, &|a, b| curves.bytes(b).cmp(&curves.bytes(a)));
    live
}

/// Bytes in the stack below a tensor at a state, memory outside the pool included.
pub fn bytes_below(curves: &Curves, tensor: u32, state: usize) -> u64 {
    let band = curves.band(tensor);
    let lower_bands: u64 = curves.bands(state)[..band.index()].iter().sum();
    let rank = curves.rank(tensor);
    let in_band: u64 = (curves.in_band(band).iter())
        .take_while(|&&other| curves.rank(other) < rank)
        .filter(|&&other| curves.is_live(other, state))
        .map(|&other| curves.bytes(other))
        .sum();
    curves.floor_bytes() + lower_bands + in_band
}

/// A stretch in which a tensor lies at one height.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slab {
    /// Left edge, CSS pixels.
    pub x0: f64,
    /// Right edge, CSS pixels.
    pub x1: f64,
    /// Bytes below it.
    pub below: u64,
}

/// The outline of a tensor over the window, from left to right. A tensor that lives only between
/// the drawn states of two columns gets one column's width, so that it can be seen.
pub fn slabs(curves: &Curves, columns: &[Column], tensor: u32) -> Vec<Slab> {
    let (born, freed) = curves.lifetime(tensor);
    let mut slabs: Vec<Slab> = Vec::new();
    let first = columns.partition_point(|column| column.state < born);
    let alive = columns[first..].iter().take_while(|column| column.state < freed);
    let mut at: Option<(usize, u64)> = None;
    for column in alive {
        let below = match at {
            None => bytes_below(curves, tensor, column.state),
            Some((state, below)) => replay_below(curves, tensor, state..column.state, below),
        };
        at = Some((column.state, below));
        match slabs.last_mut() {
            Some(slab) if slab.below == below => slab.x1 = column.x1,
            _ => slabs.push(Slab { x0: column.x0, x1: column.x1, below }),
        }
    }
    if slabs.is_empty() {
        let overlaps = |column: &&Column| born <= column.last && column.first < freed;
        slabs.extend(columns.iter().find(overlaps).map(|column| {
            let below = bytes_below(curves, tensor, born.max(column.first));
            Slab { x0: column.x0, x1: column.x1, below }
        }));
    }
    slabs
}

/// Bytes below a tensor after further events.
fn replay_below(
    curves: &Curves,
    tensor: u32,
    events: std::ops::Range<usize>,
    mut below: u64,
) -> u64 {
    let timeline = curves.timeline();
    let rank = curves.rank(tensor);
    for event in events {
        let other = timeline.events.tensor[event];
        if curves.rank(other) >= rank {
            continue;
        }
        let size = curves.bytes(other);
        below = if timeline.events.is_alloc[event] == 0 { below - size } else { below + size };
    }
    below
}
