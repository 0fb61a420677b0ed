//! Numbers as text, as in the rest of the page: three significant digits, separators, the unit.

use super::num::{from_u64, to_i32};

/// Between a number and its unit.
pub const NBSP: char = '\u{a0}';

/// How memory is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Powers of 1024.
    #[default]
    Gib,
    /// Powers of 1000.
    Gb,
}

impl Unit {
    /// The large unit's name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gib => "GiB",
            Self::Gb => "GB",
        }
    }

    /// Bytes in the large unit.
    pub const fn bytes(self) -> f64 {
        match self {
            Self::Gib => 1_073_741_824.0,
            Self::Gb => 1e9,
        }
    }

    const fn ladder(self) -> [(f64, &'static str); 3] {
        match self {
            Self::Gib => [(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB")],
            Self::Gb => [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")],
        }
    }
}

/// `61.3 GiB`, `512 MiB`, `17 B`.
pub fn size(bytes: u64, unit: Unit) -> String {
    let value = from_u64(bytes);
    match unit.ladder().into_iter().find(|(step, _)| *step <= value) {
        Some((step, word)) => format!("{}{NBSP}{word}", significant(value / step)),
        None => format!("{bytes}{NBSP}B"),
    }
}

/// `−3.2 GiB`, `+3.2 GiB` for a difference.
pub fn signed_size(bytes: i64, unit: Unit) -> String {
    let sign = match bytes {
        ..0 => "\u{2212}",
        0 => "",
        1.. => "+",
    };
    format!("{sign}{}", size(bytes.unsigned_abs(), unit))
}

/// `34,471,458,056 B`.
pub fn exact(bytes: u64) -> String {
    format!("{}{NBSP}B", count(bytes))
}

/// `1,235,814,400`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `12.3 ms`, `845 µs`, `1.06 s`.
pub fn nanoseconds(ns: u64) -> String {
    let value = from_u64(ns);
    let steps = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    match steps.into_iter().find(|(step, _)| *step <= value) {
        Some((step, word)) => format!("{}{NBSP}{word}", significant(value / step)),
        None => format!("0{NBSP}s"),
    }
}

/// `43 %`, `2.1 %`, with the share between 0 and 1.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    let digits = usize::from(value < 10.0);
    format!("{value:.digits$}{NBSP}%")
}

fn significant(value: f64) -> String {
    let digits = match value {
        value if value >= 99.95 => return count(super::num::to_u64(value + 0.5)),
        value if value >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Decimals that a tick's step needs: 2 for 0.05.
pub fn decimals_of(step: f64) -> usize {
    usize::try_from(to_i32((-step.log10() - 1e-9).ceil())).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_and_a_unit() {
        let cases = [
            (0, "0 B"),
            (512, "512 B"),
            (1024, "1 KiB"),
            (34_471_458_056, "32.1 GiB"),
            (150_000_000_000, "140 GiB"),
        ];
        for (value, text) in cases {
            assert_eq!(size(value, Unit::Gib).replace(NBSP, " "), text);
        }
        assert_eq!(size(34_471_458_056, Unit::Gb).replace(NBSP, " "), "34.5 GB");
        assert_eq!(exact(34_471_458_056).replace(NBSP, " "), "34,471,458,056 B");
        assert_eq!(signed_size(-1024, Unit::Gib).replace(NBSP, " "), "\u{2212}1 KiB");
    }

    #[test]
    fn times_have_a_unit() {
        for (ns, text) in [(5, "5 ns"), (845_000, "845 µs"), (12_340_000, "12.3 ms")] {
            assert_eq!(nanoseconds(ns).replace(NBSP, " "), text);
        }
    }

    #[test]
    fn ticks_show_the_decimals_of_their_step() {
        for (step, decimals) in [(0.05, 2), (0.1, 1), (1.0, 0), (20.0, 0), (0.002, 3)] {
            assert_eq!(decimals_of(step), decimals, "{step}");
        }
    }
}
