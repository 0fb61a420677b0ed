//! Ways to read a field that several families share.

use core::ops::RangeInclusive;

use super::Activation;
use crate::scenario::Table;
use crate::scenario::document::choice_fault;
use crate::wire::{Fault, Faults, Rule};

/// Activation functions by transformers' names.
const ACTIVATIONS: [(&str, Activation); 6] = [
    ("silu", Activation::Silu),
    ("swish", Activation::Silu),
    ("gelu", Activation::Gelu),
    ("gelu_new", Activation::GeluNew),
    ("gelu_pytorch_tanh", Activation::GeluTanh),
    ("relu", Activation::Relu),
];

/// A field under its own or its standard name.
pub(super) fn either(
    table: &mut Table<'_>,
    [own, standard]: [&'static str; 2],
    range: RangeInclusive<u64>,
    default: u64,
    faults: &mut Faults,
) -> Option<u64> {
    if table.value(own).is_none() {
        return table.integer_or(standard, range, default, faults);
    }
    let both = table.value(standard).is_some();
    if both && table.value(own) != table.value(standard) {
        let path = table.path(standard);
        let message = format!("`{standard}` is another name of `{own}`, and they differ");
        faults.push(Fault::new(path, Rule::Conflict, message));
    }
    table.integer_or(own, range, default, faults)
}

pub(super) fn activation(
    table: &mut Table<'_>,
    key: &'static str,
    default: Activation,
    faults: &mut Faults,
) -> Option<Activation> {
    let Some(name) = table.text(key, faults) else {
        return table.value(key).is_none().then_some(default);
    };
    activation_named(name, table.path(key), faults)
}

/// The activation function of this name, which the field at `path` gives.
pub(super) fn activation_named(
    name: &str,
    path: String,
    faults: &mut Faults,
) -> Option<Activation> {
    let found = ACTIVATIONS.iter().find(|(word, _)| *word == name);
    if found.is_none() {
        let words = ACTIVATIONS.map(|(word, _)| word);
        let mut fault = choice_fault(path, name, &words);
        fault.rule = Rule::Unsupported;
        faults.push(fault);
    }
    found.map(|(_, activation)| *activation)
}

/// A flag or count that turns something on that is not simulated.
pub(super) fn must_be_off(
    table: &mut Table<'_>,
    key: &'static str,
    reason: &str,
    faults: &mut Faults,
) {
    let on = table.value(key).is_some_and(|value| {
        value.as_bool() != Some(false) && value.as_f64().is_none_or(|number| number != 0.0)
    });
    if on {
        let message = format!("`{key}` is set, and {reason}");
        let fault = Fault::new(table.path(key), Rule::Unsupported, message);
        faults.push(fault.arguments([key.to_owned(), reason.to_owned()]));
    }
}

/// A flag that is on by default and turns something off that is not simulated without.
pub(super) fn must_be_on(
    table: &mut Table<'_>,
    key: &'static str,
    reason: &str,
    faults: &mut Faults,
) {
    if table.flag_or(key, true, faults) == Some(false) {
        let message = format!("`{key}` is false, and {reason}");
        let fault = Fault::new(table.path(key), Rule::Unsupported, message);
        faults.push(fault.arguments([key.to_owned(), reason.to_owned()]));
    }
}

/// `whole` must be a multiple of `divisor`; the nearest divisors come as mends.
pub(super) fn must_divide(
    table: &Table<'_>,
    (divisor_key, divisor): (&str, u64),
    (whole_key, whole): (&str, u64),
    faults: &mut Faults,
) {
    if whole % divisor == 0 {
        return;
    }
    let path = table.path(divisor_key);
    let message = format!(
        "`{whole_key}` ({whole}) must be a multiple of `{divisor_key}` ({divisor}), and is not"
    );
    let fault = Fault::new(path.clone(), Rule::Divisible, message).arguments([
        whole.to_string(),
        String::from("multiple of"),
        divisor.to_string(),
    ]);
    let below = (1..divisor.min(whole)).rev().find(|candidate| whole % candidate == 0);
    let above = (divisor + 1..=whole).find(|candidate| whole % candidate == 0);
    let mends = below.into_iter().chain(above);
    faults.push(mends.fold(fault, |fault, value| fault.mend(path.clone(), value)));
}
