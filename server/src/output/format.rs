//! The one place of the command line that turns quantities into text.

use simulator::units::{Bytes, KIB, MIB};

/// A whole number with separators: `1,235,814,400`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if 0 < index && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number without its fraction, with separators.
pub(crate) fn rounded(number: f64) -> String {
    let whole = format!("{:.0}", number.max(0.0));
    whole.parse().map_or(whole, thousands)
}

/// Bytes in the largest unit that leaves at least one before the point.
pub(crate) fn size(bytes: Bytes) -> String {
    match bytes.get() {
        count if count < KIB => format!("{count} B"),
        count if count < MIB => format!("{:.1} KiB", bytes.gib() * 1_048_576.0),
        count if count < MIB << 10 => format!("{:.1} MiB", bytes.gib() * 1024.0),
        _ => gib(bytes),
    }
}

/// Bytes in GiB.
pub(crate) fn gib(bytes: Bytes) -> String {
    format!("{:.2} GiB", bytes.gib())
}

/// A length of time in the unit that fits it.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.3} s"),
    }
}

/// A share of one as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_well() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (1_235_814_400, "1,235,814,400")]
        {
            assert_eq!(thousands(number), expected);
        }
        for (number, expected) in [(45_071.4, "45,071"), (-0.1, "0"), (f64::NAN, "0")] {
            assert_eq!(rounded(number), expected);
        }
        for (bytes, expected) in
            [(512, "512 B"), (1536, "1.5 KiB"), (20 << 20, "20.0 MiB"), (3 << 29, "1.50 GiB")]
        {
            assert_eq!(size(Bytes::new(bytes)), expected);
        }
        for (time, expected) in [(2.5e-6, "2.5 µs"), (0.0125, "12.50 ms"), (1.06, "1.060 s")] {
            assert_eq!(seconds(time), expected);
        }
    }
}
