//! `PYTORCH_CUDA_ALLOC_CONF` as a person edits it: one key at a time, the rest left as it is.

/// The value of a key, if the text sets it.
pub(crate) fn get<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    pairs(text).find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// The text with a key set, or without it.
pub(crate) fn set(text: &str, key: &str, value: Option<&str>) -> String {
    let kept = pairs(text).filter(|(name, _)| *name != key);
    kept.chain(value.map(|value| (key, value)))
        .map(
            |(name, value)| {
                if value.is_empty() { name.to_owned() } else { format!("{name}:{value}") }
            },
        )
        .collect::<Vec<_>>()
        .join(",")
}

/// `key:value` pairs; commas within brackets belong to the value.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut depth = 0_i32;
    text.split(move |c| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth <= 0
    })
    .map(str::trim)
    .filter(|pair| !pair.is_empty())
    .map(|pair| pair.split_once(':').unwrap_or((pair, "")))
}

#[cfg(test)]
mod tests {
    use super::{get, set};

    #[test]
    fn one_key_changes_and_the_rest_stays() {
        let text = "max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2]";
        assert_eq!(get(text, "roundup_power2_divisions"), Some("[256:1,512:2]"));
        let on = set(text, "expandable_segments", Some("True"));
        assert_eq!(on, format!("{text},expandable_segments:True"));
        assert_eq!(set(&on, "expandable_segments", None), text);
        assert_eq!(set("", "a", None), "");
        assert_eq!(set("typo", "a", Some("1")), "typo,a:1");
    }
}
