//! Readers of what strangers send: whatever comes, they answer and never panic.
//!
//! Each target starts from texts that are right and breaks them at random, because random bytes alone
//! never get beyond the first brace. The seed is fixed; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` try
//! other and more inputs.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use simulator::allocator::Settings;
use simulator::catalog::Catalog;
use simulator::scenario::{Format, limits, parse_size, read_valid, to_json, to_toml};
use simulator::wire::allocator_capture::AllocatorCapture;
use simulator::wire::capture::read_case;
use simulator::wire::published::read_run;
use simulator::{importers, simulate};

/// Pieces that readers trip over.
const PIECES: [&str; 20] = [
    "0",
    "-1",
    "1e400",
    "18446744073709551616",
    "9007199254740993",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "[[[[",
    "\"\\ud800\"",
    "\u{0}",
    "NaN",
    "1.5",
    "é",
    "\n",
    ",",
    "\"1 GiB\"",
    "=",
];

/// One break of a text.
#[derive(Clone, Debug)]
enum Break {
    Cut(Index, Index),
    Insert(Index, &'static str),
    Replace(Index, u8),
    Repeat(Index, Index, Index),
}

fn breaks() -> impl Strategy<Value = Vec<Break>> {
    let one = prop_oneof![
        any::<(Index, Index)>().prop_map(|(from, to)| Break::Cut(from, to)),
        (any::<Index>(), select(&PIECES[..])).prop_map(|(at, piece)| Break::Insert(at, piece)),
        any::<(Index, u8)>().prop_map(|(at, byte)| Break::Replace(at, byte)),
        any::<(Index, Index, Index)>().prop_map(|(from, to, at)| Break::Repeat(from, to, at)),
    ];
    prop::collection::vec(one, 1..6)
}

fn broken(text: &str, breaks: &[Break]) -> Vec<u8> {
    const PIECE_MAX: usize = 40;
    let mut bytes = text.as_bytes().to_vec();
    for change in breaks {
        let n = bytes.len() + 1;
        let span = |from: &Index, to: &Index| {
            let from = from.index(n);
            from..(from + to.index(PIECE_MAX)).min(n - 1)
        };
        match change {
            Break::Cut(from, to) => drop(bytes.drain(span(from, to))),
            Break::Insert(at, piece) => {
                let at = at.index(n);
                bytes.splice(at..at, piece.bytes());
            }
            Break::Replace(at, byte) if 1 < n => bytes[at.index(n - 1)] = *byte,
            Break::Replace(..) => {}
            Break::Repeat(from, to, at) => {
                let piece = bytes[span(from, to)].to_vec();
                let at = at.index(n);
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_none_or(|extension| extension != "gz") {
        return String::from_utf8(bytes).expect("text");
    }
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("gzip");
    text
}

/// A scenario that is accepted can be written, and simulated when it is small.
fn scenario(bytes: &[u8], format: Format) {
    const SMALL: u64 = 1 << 22;
    let text = String::from_utf8_lossy(bytes);
    let catalog = Catalog::builtin();
    let Ok(valid) = read_valid(&text, format, &catalog) else { return };
    let document = valid.document();
    to_toml(document).expect("a valid scenario is TOML");
    to_json(document).expect("a valid scenario is JSON");
    let work = document.workload.grad_accum.saturating_mul(document.workload.seq_len);
    if work <= SMALL && document.workload.grad_accum <= 16 {
        simulate(&valid);
    }
    assert!(document.workload.grad_accum <= limits::LAYER_PASSES_MAX);
}

fn configuration(bytes: &[u8]) {
    drop(importers::hf_config(&String::from_utf8_lossy(bytes)));
}

fn case(bytes: &[u8]) {
    if let Ok(capture) = read_case(bytes) {
        drop(importers::capture_case(&capture.case.into(), "h200-sxm"));
    }
}

fn allocator(bytes: &[u8]) {
    drop(AllocatorCapture::from_json(bytes));
}

fn published(bytes: &[u8]) {
    drop(read_run(&String::from_utf8_lossy(bytes)));
}

fn settings(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    parse_size(&text);
    if let Ok(settings) = Settings::parse(&text) {
        for size in [1, 511, 1 << 20, (10 << 20) + 1, 1 << 40] {
            let block = settings.block_size(size);
            assert!(size <= block && block <= settings.segment_size(block), "{text}: {size}");
        }
    }
}

const LLAMA: &str = r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "max_position_embeddings": 131072,
    "rope_scaling": {"factor": 8.0, "rope_type": "llama3"}, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16", "attention_bias": false, "hidden_act": "silu"}"#;

const SETTINGS: &str = "expandable_segments:True,max_split_size_mb:128,\
    roundup_power2_divisions:[256:1,512:2,>:8],garbage_collection_threshold:0.8,\
    per_process_memory_fraction:0.5";

/// Texts and the reader that they are for.
fn check(reader: fn(&[u8]), text: &str, breaks: &[Break]) {
    reader(&broken(text, breaks));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scenarios(breaks in breaks(), which in 0..4_usize) {
        let toml: fn(&[u8]) = |bytes| scenario(bytes, Format::Toml);
        let json: fn(&[u8]) = |bytes| scenario(bytes, Format::Json);
        let (name, reader) = [
            ("every-field.json", json),
            ("every-field.toml", toml),
            ("inline-model.toml", toml),
            ("smallest.toml", toml),
        ][which];
        check(reader, &file(&format!("scenarios/{name}")), &breaks);
    }

    #[test]
    fn configurations(breaks in breaks()) {
        check(configuration, LLAMA, &breaks);
    }

    #[test]
    fn allocator_settings(breaks in breaks()) {
        check(settings, SETTINGS, &breaks);
    }

    #[test]
    fn published_runs(breaks in breaks(), line: Index) {
        let runs = file("published/runs.jsonl");
        let lines: Vec<&str> = runs.lines().collect();
        check(published, lines[line.index(lines.len())], &breaks);
    }

    #[test]
    fn captures(breaks in breaks()) {
        let text = file("ground-truth/cases/small-gpt2-bf16.json.gz");
        check(case, &text, &breaks);
    }

    #[test]
    fn allocator_captures(breaks in breaks()) {
        // The head of a capture has every field; what follows are thousands of rows alike.
        let text = file("ground-truth/allocator/gpt2-amp-sdpa.json.gz");
        check(allocator, &text[..text.floor_char_boundary(4000)], &breaks);
    }
}
