//! The only place that turns numbers into text: three significant digits, separators, the unit.

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

/// An exact count as a float; memory sizes stay far below 2⁵³.
#[expect(clippy::cast_precision_loss, reason = "counts shown to people stay below 2^53")]
pub const fn float(count: u64) -> f64 {
    count as f64
}

/// `61.3 GiB`, `512 MiB`, `17 B`: the largest unit that leaves at least one before the point.
pub fn size(bytes: u64, unit: Unit) -> String {
    let value = float(bytes);
    match unit.ladder().into_iter().find(|(step, _)| *step <= value) {
        Some((step, word)) => format!("{}{NBSP}{word}", significant(value / step)),
        None => format!("{bytes}{NBSP}B"),
    }
}

/// The number alone, in GiB or GB whatever its size: `0.412`, `61.3`, `1,024`.
pub fn large(bytes: u64, unit: Unit) -> String {
    significant(float(bytes) / unit.bytes())
}

/// The half-width of a band alone, in GiB or GB: two digits say all that it knows.
pub fn band(bytes: u64, unit: Unit) -> String {
    let value = float(bytes) / unit.bytes();
    let text = match value {
        ..0.095 => format!("{value:.3}"),
        ..0.95 => format!("{value:.2}"),
        ..9.5 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// A figure in bytes, which may be negative.
pub fn float_size(bytes: f64, unit: Unit) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "figures in bytes stay below 2^53")]
    let whole = bytes.round() as i64;
    let sign = if whole < 0 { "−" } else { "" };
    format!("{sign}{}", size(whole.unsigned_abs(), unit))
}

/// A figure without a unit: counts in full, all else to three digits.
pub fn number(value: f64) -> String {
    if (1000.0..=9e15).contains(&value) && value.fract() == 0.0 {
        separated(&format!("{value:.0}"))
    } else {
        significant(value)
    }
}

/// `3.42 PFLOP`.
pub fn flops(value: f64) -> String {
    let steps = [(1e18, "EFLOP"), (1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")];
    match steps.into_iter().find(|(step, _)| *step <= value) {
        Some((step, word)) => format!("{}{NBSP}{word}", significant(value / step)),
        None => format!("{}{NBSP}FLOP", significant(value)),
    }
}

/// `−3.2 GiB`, `+3.2 GiB` for a difference.
pub fn signed_size(bytes: i64, unit: Unit) -> String {
    let sign = match bytes {
        ..0 => "−",
        0 => "",
        1.. => "+",
    };
    format!("{sign}{}", size(bytes.unsigned_abs(), unit))
}

/// `65,823,145,984 B`.
pub fn exact(bytes: u64) -> String {
    format!("{}{NBSP}B", count(bytes))
}

/// `1,235,814,400`.
pub fn count(value: u64) -> String {
    separated(&value.to_string())
}

/// `1.24 B`, `494 M`: a count of parameters as people say it.
pub fn parameters(value: u64) -> String {
    let number = float(value);
    let steps = [(1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")];
    match steps.into_iter().find(|(step, _)| *step <= number) {
        Some((step, word)) => format!("{}{NBSP}{word}", significant(number / step)),
        None => value.to_string(),
    }
}

/// `1.06 s`, `83.2 ms`, `412 µs`, `50 ns`.
pub fn seconds(value: f64) -> String {
    let steps = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
    match steps.into_iter().find(|(step, _)| *step <= value) {
        Some((step, word)) => format!("{}{NBSP}{word}", significant(value / step)),
        None => format!("0{NBSP}s"),
    }
}

/// Nanoseconds as [`seconds`].
pub fn nanoseconds(value: u64) -> String {
    seconds(float(value) * 1e-9)
}

/// `15,500`: a rate, to three significant digits.
pub fn rate(value: f64) -> String {
    significant(value)
}

/// `43.1 %`, with the share between 0 and 1.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return "–".into();
    }
    let value = share * 100.0;
    let digits = usize::from(value < 10.0);
    format!("{value:.digits$}{NBSP}%")
}

/// Three significant digits with separators; nothing is ever written as a power of ten.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let size = value.abs();
    let text = if 1000.0 <= size {
        let step = 10_f64.powf(size.log10().floor() - 2.0);
        format!("{:.0}", (value / step).round() * step)
    } else if 99.95 <= size {
        format!("{value:.0}")
    } else if 9.995 <= size {
        format!("{value:.1}")
    } else if !(1e-9..0.9995).contains(&size) {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    };
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    separated(text)
}

/// Thousands separators before the point.
fn separated(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |rest| ("−", rest));
    let (whole, rest) = digits.find('.').map_or((digits, ""), |at| digits.split_at(at));
    let mut out = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if 0 < index && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// A whole number as people type it: separators and blanks are fine.
pub fn parse_count(text: &str) -> Option<u64> {
    let digits: String =
        text.chars().filter(|c| !matches!(c, ',' | '_' | ' ' | '\u{a0}')).collect();
    digits.parse().ok()
}

/// A number with a point.
pub fn parse_float(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|value: &f64| value.is_finite())
}

/// Bytes as people type them: `80`, `79.6 GiB`, `500 MB`; a bare number is in `unit`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just before")]
pub fn parse_size(text: &str, unit: Unit) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, word) = text.split_at(split);
    let number: String =
        number.chars().filter(|c| !matches!(c, ',' | '_' | ' ' | '\u{a0}')).collect();
    let value: f64 = number.parse().ok()?;
    let step = match word.trim().to_ascii_lowercase().as_str() {
        "" => unit.bytes(),
        "b" => 1.0,
        "kib" => 1024.0,
        "mib" => 1_048_576.0,
        "gib" | "g" => 1_073_741_824.0,
        "tib" => 1_099_511_627_776.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return None,
    };
    let bytes = (value * step).round();
    (0.0..9e15).contains(&bytes).then_some(bytes as u64)
}

/// The number that [`parse_size`] reads back: at most two digits after the point where that is exact enough.
pub fn editable_size(bytes: u64, unit: Unit) -> String {
    let value = float(bytes) / unit.bytes();
    let short = format!("{value:.2}");
    let text = if parse_size(&short, unit).is_some_and(|back| back.abs_diff(bytes) < 1 << 20) {
        short
    } else {
        format!("{value:.4}")
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        text.replace(NBSP, " ")
    }

    #[test]
    fn sizes_have_three_digits_and_their_unit() {
        let gib = 1 << 30;
        for (bytes, binary, decimal) in [
            (0, "0 B", "0 B"),
            (512, "512 B", "512 B"),
            (1 << 20, "1 MiB", "1.05 MB"),
            (61 * gib + gib / 3, "61.3 GiB", "65.9 GB"),
            (80 * gib, "80 GiB", "85.9 GB"),
            (1024 * gib, "1,020 GiB", "1,100 GB"),
        ] {
            assert_eq!(plain(&size(bytes, Unit::Gib)), binary);
            assert_eq!(plain(&size(bytes, Unit::Gb)), decimal);
        }
    }

    #[test]
    fn numbers_round_and_are_separated() {
        for (value, text) in [
            (0.0, "0"),
            (0.412_3, "0.412"),
            (0.999_9, "1"),
            (9.999, "10"),
            (99.96, "100"),
            (999.9, "1,000"),
            (15_512.0, "15,500"),
            (1_234_567.0, "1,230,000"),
            (-2.5, "−2.5"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(significant(value), text, "{value}");
        }
    }

    #[test]
    fn counts_are_told_in_full() {
        assert_eq!(number(1_235_814_400.0), "1,235,814,400");
        assert_eq!(number(0.431_2), "0.431");
        assert_eq!(number(-3.0), "−3");
    }

    #[test]
    fn bands_have_two_digits() {
        let mib = 1 << 20;
        for (bytes, text) in [
            (0, "0"),
            (12 * mib, "0.012"),
            (702 * mib, "0.69"),
            (1400 * mib, "1.4"),
            (1 << 34, "16"),
        ] {
            assert_eq!(band(bytes, Unit::Gib), text);
        }
    }

    #[test]
    fn typed_sizes_come_back() {
        assert_eq!(parse_size("80", Unit::Gib), Some(80 << 30));
        assert_eq!(parse_size("80 GB", Unit::Gib), Some(80_000_000_000));
        assert_eq!(parse_size("512mib", Unit::Gb), Some(512 << 20));
        assert_eq!(parse_size("-1", Unit::Gib), None);
        assert_eq!(parse_size("many", Unit::Gib), None);
        for bytes in [0, 1 << 28, 3 << 30, 85_520_809_984] {
            for unit in [Unit::Gib, Unit::Gb] {
                let text = editable_size(bytes, unit);
                let back = parse_size(&text, unit).unwrap_or_default();
                assert!(back.abs_diff(bytes) < 1 << 20, "{text}");
            }
        }
    }

    #[test]
    fn times_pick_their_unit() {
        assert_eq!(plain(&seconds(1.0612)), "1.06 s");
        assert_eq!(plain(&seconds(0.0832)), "83.2 ms");
        assert_eq!(plain(&nanoseconds(412_000)), "412 µs");
        assert_eq!(plain(&seconds(0.0)), "0 s");
        assert_eq!(plain(&percent(0.431)), "43 %");
        assert_eq!(plain(&percent(0.021)), "2.1 %");
        assert_eq!(plain(&parameters(1_235_814_400)), "1.24 B");
    }
}
