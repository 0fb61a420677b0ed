//! The address of a plan: scenario, view and what was answered, in one link. Version 1.
//!
//! ```text
//! /?v=1&s=<scenario: JSON, deflate, base64url>&p=<predictions>.<peak bytes>&step=first&tab=peak&view=…
//! ```
//!
//! Everything but `v` and `s` may be absent. Pure: the browser's side is in `address`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use simulator::scenario::from_value;
use simulator::wire::report::StepKind;
use simulator::wire::scenario::Scenario;

use crate::state::Tab;

/// Version of the address written by this program.
pub(crate) const VERSION: u64 = 1;

/// A scenario larger than this is no scenario.
const MOST_BYTES: usize = 1 << 18;

/// What a link says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Link {
    pub scenario: Scenario,
    pub step: StepKind,
    pub tab: Tab,
    /// The chart's own words for its view.
    pub view: Option<String>,
    pub answered: Option<Answered>,
}

/// What was predicted when the link was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    /// Number of the prediction rules.
    pub predictions: u64,
    /// Peak of the device's memory.
    pub peak_bytes: u64,
}

/// Why a link cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkFault {
    /// A newer Tidemark wrote it.
    Newer,
    /// Cut off or garbled on its way.
    Broken,
}

/// The query of a link, without `?`.
pub(crate) fn encode(link: &Link) -> String {
    let json = serde_json::to_vec(&link.scenario).unwrap_or_default();
    let packed = URL_SAFE_NO_PAD.encode(compress_to_vec(&json, 9));
    let mut query = format!("v={VERSION}&s={packed}");
    if let Some(Answered { predictions, peak_bytes }) = link.answered {
        query += "&p=";
        query += &predictions.to_string();
        query.push('.');
        query += &peak_bytes.to_string();
    }
    if link.step == StepKind::First {
        query.push_str("&step=first");
    }
    if link.tab != Tab::default() {
        query += "&tab=";
        query += link.tab.word();
    }
    if let Some(view) = link.view.as_deref().filter(|view| !view.is_empty()) {
        query += "&view=";
        query += &escape(view);
    }
    query
}

/// Reads a query; `None` when it holds no plan.
///
/// # Errors
///
/// When it holds one that cannot be read.
pub(crate) fn decode(query: &str) -> Result<Option<Link>, LinkFault> {
    let get = |key: &str| {
        let pairs = query.trim_start_matches('?').split('&');
        pairs.filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == key).map(|(_, v)| v)
    };
    let Some(packed) = get("s") else { return Ok(None) };
    match get("v").and_then(|version| version.parse::<u64>().ok()) {
        Some(VERSION) => {}
        Some(version) if VERSION < version => return Err(LinkFault::Newer),
        _ => return Err(LinkFault::Broken),
    }
    let scenario = unpack(packed).ok_or(LinkFault::Broken)?;
    Ok(Some(Link {
        scenario,
        step: if get("step") == Some("first") { StepKind::First } else { StepKind::Steady },
        tab: get("tab").and_then(Tab::from_word).unwrap_or_default(),
        view: get("view").map(unescape),
        answered: get("p").and_then(answered),
    }))
}

fn unpack(packed: &str) -> Option<Scenario> {
    let bytes = URL_SAFE_NO_PAD.decode(packed).ok()?;
    let json = decompress_to_vec_with_limit(&bytes, MOST_BYTES).ok()?;
    from_value(&serde_json::from_slice(&json).ok()?).ok()
}

fn answered(text: &str) -> Option<Answered> {
    let (predictions, peak_bytes) = text.split_once('.')?;
    Some(Answered { predictions: predictions.parse().ok()?, peak_bytes: peak_bytes.parse().ok()? })
}

fn hex_digit(value: u8) -> char {
    char::from_digit(value.into(), 16).map_or('0', |digit| digit.to_ascii_uppercase())
}

/// Percent-encodes all but the characters that a query may hold as they are.
fn escape(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~:,;@!$*()/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.extend([byte >> 4, byte & 15].map(hex_digit));
        }
        out
    })
}

fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let byte = match tail {
            [high, low, ..] if *first == b'%' => core::str::from_utf8(&[*high, *low])
                .ok()
                .and_then(|hex| u8::from_str_radix(hex, 16).ok()),
            _ => None,
        };
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulator::wire::parallel::Parallel;
    use simulator::wire::scenario::{
        Checkpointing, Hardware, Model, Optimizer, Precision, SCENARIO_VERSION, Stack, Workload,
    };

    fn link() -> Link {
        Link {
            scenario: Scenario {
                version: SCENARIO_VERSION,
                name: Some("显存".into()),
                model: Model::Catalog { id: "llama-3.1-8b".into() },
                hardware: Hardware {
                    gpu: "h100-sxm".into(),
                    count: 1,
                    already_used_bytes: 0,
                    process_cap_bytes: None,
                },
                parallel: Parallel::default(),
                workload: Workload { micro_batch: 1, seq_len: 4096, target_len: 0, grad_accum: 1 },
                precision: Precision::Bf16,
                optimizer: Optimizer::default(),
                checkpointing: Checkpointing::None,
                adapter: None,
                stack: Stack::default(),
            },
            step: StepKind::First,
            tab: Tab::Peak,
            view: Some("0-12.5 é%".into()),
            answered: Some(Answered { predictions: 3, peak_bytes: 65_000_000_000 }),
        }
    }

    #[test]
    fn a_link_comes_back_whole_and_short() {
        let link = link();
        let query = encode(&link);
        assert_eq!(decode(&format!("?{query}")), Ok(Some(link)));
        assert!(query.len() < 500, "{}", query.len());
        assert!(query.is_ascii());
    }

    #[test]
    fn a_link_of_version_1_still_loads() {
        let query = include_str!("../tests/link-v1.txt").trim();
        assert_eq!(decode(query), Ok(Some(link())));
    }

    #[test]
    fn broken_links_say_how() {
        assert_eq!(decode(""), Ok(None));
        assert_eq!(decode("?x=1"), Ok(None));
        assert_eq!(decode("?v=2&s=AAAA"), Err(LinkFault::Newer));
        assert_eq!(decode("?s=AAAA"), Err(LinkFault::Broken));
        assert_eq!(decode("?v=1&s=***"), Err(LinkFault::Broken));
        let query = encode(&link());
        assert_eq!(decode(&query[..60]), Err(LinkFault::Broken));
    }

    #[test]
    fn a_bomb_is_refused() {
        let zeros = URL_SAFE_NO_PAD.encode(compress_to_vec(&vec![b' '; 1 << 24], 9));
        assert_eq!(decode(&format!("v=1&s={zeros}")), Err(LinkFault::Broken));
    }
}
