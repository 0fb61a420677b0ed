//! Sizes that people write: `2 GiB`, `500 MB`, `1.5GiB`.

/// Bytes of a text such as `2 GiB` (2³⁰) or `500 MB` (10⁶), or a bare whole number of bytes;
/// `None` when it is not one, or larger than 2⁶² bytes.
///
/// A fraction is allowed with a unit (`1.5 GiB`) and is rounded to the nearest byte.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" if !number.contains('.') => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || 9 < fraction.len() || 18 < whole.len() {
        return None;
    }
    let mut denominator: u128 = 1;
    for _ in 0..fraction.len() {
        denominator *= 10;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let bytes = (digits * u128::from(factor) + denominator / 2) / denominator;
    u64::try_from(bytes).ok().filter(|bytes| *bytes <= 1 << 62)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        let check = |text, bytes| assert_eq!(parse_size(text), bytes, "{text:?}");
        check("2 GiB", Some(2 << 30));
        check("2gib", Some(2 << 30));
        check("500 MB", Some(500_000_000));
        check("1.5 GiB", Some(3 << 29));
        check("0.1 KB", Some(100));
        check(" 1024 ", Some(1024));
        check("1024 B", Some(1024));
        check("9007199254740993", Some((1 << 53) + 1));
        check("1.5", None);
        check("1.2.3 GB", None);
        check("GiB", None);
        check(".5 GiB", None);
        check("-1 GiB", None);
        check("2 GiBs", None);
        check("999999999999999999 TiB", None);
    }
}
