//! What `Phi3ForCausalLM` has beyond Llama's class: projections in one piece, dropout of what a layer
//! adds, and rotary positions in part of a head.

use crate::scenario::Table;
use crate::scenario::document::choice_fault;
use crate::scenario::limits;
use crate::wire::{Fault, Faults, Rule};

/// What Phi-3's class has beyond Llama's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phi3 {
    /// `resid_pdrop`.
    pub residual_dropout: f64,
    /// Elements of a head that carry positions: `int(head_dim * partial_rotary_factor)`, in pairs.
    pub rotary_dim: u64,
    /// With `LongRoPE`, `original_max_position_embeddings`: longer sequences have other frequencies.
    pub long_from: Option<u64>,
}

/// Source: transformers 5.17, `models/phi3/configuration_phi3.py`; `rope_scaling` is the older name of
/// `rope_parameters`, and `su` and `yarn` are older names of `longrope`.
pub(super) fn read(head_dim: u64, table: &mut Table<'_>, faults: &mut Faults) -> Option<Phi3> {
    let residual_dropout = table.number_or("resid_pdrop", limits::DROPOUT, 0.0, faults);
    let original =
        table.integer_or("original_max_position_embeddings", limits::POSITIONS, 4_096, faults);
    let outer = table.number_or("partial_rotary_factor", 0.0..=1.0, 1.0, faults)?;
    let old = table.table("rope_scaling", faults);
    let new = table.table("rope_parameters", faults);
    let is_empty = |table: &Table<'_>| table.fields().is_empty();
    let (mut factor, mut long) = (outer, false);
    if let Some(mut rope) = old.filter(|old| !is_empty(old)).or(new) {
        factor = rope.number_or("partial_rotary_factor", 0.0..=1.0, outer, faults)?;
        long = is_long(&mut rope, faults)?;
    }
    let rotary_dim = part(head_dim, factor).next_multiple_of(2);
    if rotary_dim == 0 {
        let message = "no element of a head is left to carry positions";
        let path = table.path("partial_rotary_factor");
        faults.push(Fault::new(path.clone(), Rule::Conflict, message).mend(path, 1.0));
        return None;
    }
    let long_from = original.map(|original| long.then_some(original));
    Some(Phi3 { residual_dropout: residual_dropout?, rotary_dim, long_from: long_from? })
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a head's width times a number from 0 to 1"
)]
fn part(head_dim: u64, factor: f64) -> u64 {
    (head_dim as f64 * factor) as u64
}

fn is_long(rope: &mut Table<'_>, faults: &mut Faults) -> Option<bool> {
    const TYPES: [&str; 4] = ["default", "longrope", "su", "yarn"];
    let keys = ["rope_type", "type"];
    let key = keys.into_iter().find(|&key| rope.value(key).is_some()).unwrap_or(keys[0]);
    let Some(value) = rope.value(key) else { return Some(false) };
    let word = value.as_str().unwrap_or("no text");
    if !TYPES.contains(&word) {
        faults.push(choice_fault(rope.path(key), word, &TYPES));
        return None;
    }
    Some(word != TYPES[0])
}
