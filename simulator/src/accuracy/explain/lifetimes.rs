//! Tensors that both sides allocate, and that one side frees earlier than the other.
//!
//! A free is placed by how many of the paired allocations stand before it: a clock that both
//! sides share.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use super::super::trace::Trace;
use super::{Explain, Layers, Sides, label, mib, put};

/// Freed after how many paired allocations; those that outlive the step have none.
type Tick = Option<usize>;

/// One tensor that dies at different ticks.
struct Wrong {
    bytes: u64,
    tensor: usize,
    born: usize,
    measured: Tick,
    predicted: Tick,
}

/// The largest differences, grouped by what made the tensor.
pub(super) fn lifetimes(text: &mut String, sides: &Sides<'_>, how: Explain) {
    let wrong = wrong(sides);
    let mut groups: BTreeMap<String, Vec<&Wrong>> = BTreeMap::new();
    for one in &wrong {
        groups.entry(label(sides.timeline, one.tensor, Layers::Merged)).or_default().push(one);
    }
    put(
        text,
        format_args!(
            "\npaired tensors that die at another time: {} of {} (ticks = paired allocations)",
            wrong.len(),
            sides.pairs.len()
        ),
    );
    let last = sides.pairs.len();
    let weight = |one: &Wrong| {
        let distance = one.measured.unwrap_or(last).abs_diff(one.predicted.unwrap_or(last));
        u128::from(one.bytes) * distance as u128
    };
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| Reverse(group.iter().copied().map(weight).sum::<u128>()));
    for (name, group) in groups.iter().take(how.places) {
        let Some(first) = group.first() else { continue };
        let tick = |tick: Tick| tick.map_or_else(|| "never".to_owned(), |t| t.to_string());
        put(
            text,
            format_args!(
                "  {:>5} × {:>12} MiB  {name}: the first, born at {}, dies at {} measured, {} predicted",
                group.len(),
                mib(first.bytes),
                first.born,
                tick(first.measured),
                tick(first.predicted),
            ),
        );
    }
}

fn wrong(sides: &Sides<'_>) -> Vec<Wrong> {
    let paired_left: Vec<usize> =
        sides.pairs.iter().map(|pair| sides.measured_large[pair.left]).collect();
    let paired_right: Vec<usize> =
        sides.pairs.iter().map(|pair| sides.predicted_large[pair.right]).collect();
    let measured = deaths(&sides.measured);
    let predicted = deaths(&sides.predicted);
    let mut wrong = Vec::new();
    for (born, (left, right)) in paired_left.iter().zip(&paired_right).enumerate() {
        let (left, right) = (sides.measured.requests[*left], sides.predicted.requests[*right]);
        let (Some(left_tensor), Some(tensor)) = (left.tensor, right.tensor) else { continue };
        let tick = |death: Option<&usize>, paired: &[usize]| {
            death.map(|death| paired.partition_point(|event| event < death))
        };
        let measured = tick(measured.get(&left_tensor), &paired_left);
        let predicted = tick(predicted.get(&tensor), &paired_right);
        if measured != predicted {
            wrong.push(Wrong { bytes: right.bytes, tensor, born, measured, predicted });
        }
    }
    wrong
}

/// The event that frees each tensor.
fn deaths(trace: &Trace) -> BTreeMap<usize, usize> {
    trace
        .requests
        .iter()
        .enumerate()
        .filter(|(_, request)| !request.is_alloc)
        .filter_map(|(event, request)| Some((request.tensor?, event)))
        .collect()
}
