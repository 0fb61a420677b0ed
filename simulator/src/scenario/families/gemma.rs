//! What `Gemma2ForCausalLM` and `Gemma3ForCausalLM` have beyond Llama's class: a norm after each half
//! of a layer as well, a scaled embedding, windows in some layers, bounded scores and logits.

use serde_json::Value;

use super::fields::must_be_off;
use super::llama::{SlidingWindow, Types, layer_types};
use crate::scenario::Table;
use crate::scenario::limits;
use crate::wire::{Fault, Faults, ModelKind, Rule};

/// What Gemma's classes have beyond Llama's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gemma {
    /// Whether eager attention bounds its scores (`attn_logit_softcapping`); Gemma 3 reads the field,
    /// and does not hand it on.
    pub bounds_scores: bool,
    /// Whether logits are bounded (`final_logit_softcapping`).
    pub bounds_logits: bool,
    /// Kinds of layer that have rotary frequencies of their own.
    pub rotary_kinds: u64,
}

/// Source: transformers 5.17, `models/gemma2/configuration_gemma2.py`,
/// `models/gemma3/configuration_gemma3.py` (`Gemma3TextConfig`).
pub(super) fn read(
    kind: ModelKind,
    layers: u64,
    table: &mut Table<'_>,
    faults: &mut Faults,
) -> Option<(Gemma, SlidingWindow)> {
    let second = kind == ModelKind::Gemma2;
    must_be_off(table, "use_bidirectional_attention", "attention is simulated as causal", faults);
    let bounds_scores = is_bounded(table, "attn_logit_softcapping", second, faults);
    let bounds_logits = is_bounded(table, "final_logit_softcapping", second, faults);
    let tokens = window(table, faults);
    let period = if second {
        Some(2)
    } else {
        table.integer_or("sliding_window_pattern", limits::LAYERS, 6, faults)
    };
    // Saved files have the pattern under this name too, beside the list that came of it.
    table.raw("_sliding_window_pattern");
    let slides = match layer_types(table, layers, faults) {
        Types::Absent => (1..=layers).map(|layer| layer % period.unwrap_or(1) != 0).collect(),
        Types::Listed(slides) => slides,
        Types::Wrong => return None,
    };
    let both = slides.contains(&true) && slides.contains(&false);
    let gemma = Gemma {
        bounds_scores: bounds_scores? && second,
        bounds_logits: bounds_logits?,
        rotary_kinds: if both && !second { 2 } else { 1 },
    };
    period?;
    let window =
        SlidingWindow { tokens: tokens?, first_layer: 0, listed: Some(slides), beside_full: true };
    Some((gemma, window))
}

/// A bound is off where it is null (or 0, which is how TOML writes it).
fn is_bounded(
    table: &mut Table<'_>,
    key: &'static str,
    default: bool,
    faults: &mut Faults,
) -> Option<bool> {
    match table.raw(key) {
        None => Some(default),
        Some(Value::Null) => Some(false),
        Some(_) => table.number_or(key, 0.0..=1e9, 0.0, faults).map(|bound| 0.0 < bound),
    }
}

/// The class makes the window's mask whether or not a layer uses it.
fn window(table: &mut Table<'_>, faults: &mut Faults) -> Option<u64> {
    let range = 0..=*limits::POSITIONS.end();
    let null = table.raw("sliding_window").is_some_and(Value::is_null);
    let tokens = table.integer_or("sliding_window", range, if null { 0 } else { 4_096 }, faults)?;
    if tokens == 0 {
        let message = "the class makes a mask with a window in any case, and needs its width";
        let path = table.path("sliding_window");
        faults.push(Fault::new(path.clone(), Rule::Conflict, message).mend(path, 4_096));
        return None;
    }
    Some(tokens)
}
