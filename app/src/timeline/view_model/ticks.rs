//! Round numbers along an axis: 1, 2 or 5 times a power of ten.

use super::axis::{XAxis, YAxis};
use super::num::{from_usize, to_i32, to_index, to_u64};
use super::view::Axis;
use crate::format::{Unit, count};

/// A tick: where it stands and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Pixel along the axis.
    pub px: f64,
    /// Text without the unit.
    pub text: String,
}

/// Ticks with the unit they share.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticks {
    /// From low to high.
    pub ticks: Vec<Tick>,
    /// Unit of all of them; empty for events.
    pub unit: &'static str,
}

/// The smallest of 1, 2, 5 × 10ⁿ that is at least `least`.
pub fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let lead = [1.0, 2.0, 5.0].into_iter().find(|&lead| lead * power >= least * (1.0 - 1e-9));
    lead.unwrap_or(10.0) * power
}

/// Ticks of bytes, in GiB or GB, at least `gap` pixels apart.
pub fn byte_ticks(axis: &YAxis, unit: Unit, gap: f64) -> Ticks {
    let (size, name) = (unit.bytes(), unit.word());
    let step = round_step(axis.bytes_per_px() * gap / size);
    let decimals = decimals_of(step);
    let ticks = multiples(axis.low / size, axis.high / size, step)
        .map(|value| Tick { px: axis.px(value * size), text: number(value, decimals) })
        .collect();
    Ticks { ticks, unit: name }
}

/// Ticks of time or events, at least `gap` pixels apart.
pub fn x_ticks(axis: &XAxis, gap: f64) -> Ticks {
    match axis.kind {
        Axis::Time => time_ticks(axis, gap),
        Axis::Order => event_ticks(axis, gap),
    }
}

fn time_ticks(axis: &XAxis, gap: f64) -> Ticks {
    let step_ns = axis.units_per_px() * gap;
    let (size, unit) = match axis.end {
        end if end >= 2e9 => (1e9, "s"),
        end if end >= 1e6 => (1e6, "ms"),
        _ => (1e3, "µs"),
    };
    let step = round_step(step_ns / size);
    let decimals = decimals_of(step);
    let ticks = multiples(axis.start / size, axis.end / size, step)
        .map(|value| Tick { px: axis.px(value * size), text: number(value, decimals) })
        .collect();
    Ticks { ticks, unit }
}

fn event_ticks(axis: &XAxis, gap: f64) -> Ticks {
    let step = round_step((axis.units_per_px() * gap).max(1.0));
    let ticks = multiples(axis.start.max(0.0), axis.end, step)
        .map(|value| Tick { px: axis.px(value), text: count(to_u64(value + 0.5)) })
        .collect();
    Ticks { ticks, unit: "" }
}

/// Decimals that a tick's step needs: 2 for 0.05.
fn decimals_of(step: f64) -> usize {
    usize::try_from(to_i32((-step.log10() - 1e-9).ceil())).unwrap_or(0)
}

/// Whole numbers with separators, others with the decimals of their step.
fn number(value: f64, decimals: usize) -> String {
    if decimals == 0 { count(to_u64(value + 0.5)) } else { format!("{value:.decimals$}") }
}

/// Multiples of a step within a range.
fn multiples(low: f64, high: f64, step: f64) -> impl Iterator<Item = f64> {
    let first = (low / step - 1e-9).ceil();
    let count = to_index((high / step - first + 1e-9).floor() + 1.0);
    (0..count.min(200)).map(move |index| (first + from_usize(index)) * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_one_two_five() {
        let cases = [(0.03, 0.05), (1.0, 1.0), (1.1, 2.0), (6.0, 10.0), (130.0, 200.0)];
        for (least, step) in cases {
            let found = round_step(least);
            assert!((found - step).abs() < 1e-9 * step, "{least}: {found}");
        }
    }

    #[test]
    fn ticks_show_the_decimals_of_their_step() {
        for (step, decimals) in [(0.05, 2), (0.1, 1), (1.0, 0), (20.0, 0), (0.002, 3)] {
            assert_eq!(decimals_of(step), decimals, "{step}");
        }
    }

    #[test]
    fn byte_ticks_stand_at_round_gib() {
        let axis = YAxis { top: 0.0, bottom: 300.0, low: 0.0, high: 85e9 };
        let ticks = byte_ticks(&axis, Unit::Gib, 40.0);
        let texts: Vec<_> = ticks.ticks.iter().map(|tick| tick.text.as_str()).collect();
        assert_eq!(texts, ["0", "20", "40", "60"]);
        assert_eq!(ticks.unit, "GiB");
        assert!(ticks.ticks.windows(2).all(|pair| pair[0].px - pair[1].px >= 40.0));
    }

    #[test]
    fn event_ticks_are_whole_events() {
        let axis = XAxis {
            kind: Axis::Order,
            left: 0.0,
            width: 100.0,
            start: -1.0,
            end: 3.0,
            limits: (-1.0, 3.0),
        };
        let texts: Vec<_> = x_ticks(&axis, 20.0).ticks.into_iter().map(|tick| tick.text).collect();
        assert_eq!(texts, ["0", "1", "2", "3"]);
    }
}
