//! The colours of tokens.css: categories stay apart for every kind of colour vision, text stays readable.

use std::collections::BTreeMap;

const TOKENS: &str = include_str!("../../public/tokens.css");

/// The order of the stack; neighbours touch. The last one is hatched as well.
const STACK: [&str; 9] = [
    "outside_pool",
    "weights",
    "optimizer_states",
    "gradients",
    "inputs",
    "activations",
    "logits",
    "temporaries",
    "slack",
];

type Rgb = [f64; 3];

/// Machado, Oliveira and Fernandes 2009, table 1, severity 1.0, on linear RGB.
const VISIONS: [(&str, [Rgb; 3]); 4] = [
    ("normal", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "protanopia",
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
    ),
    (
        "deuteranopia",
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
    ),
    (
        "tritanopia",
        [
            [1.255_528, -0.076_749, -0.178_779],
            [-0.078_411, 0.930_809, 0.147_602],
            [0.004_733, 0.691_367, 0.303_900],
        ],
    ),
];

/// The tokens of one theme; dark ones fall back to the light ones.
fn theme(name: &str) -> BTreeMap<String, Rgb> {
    let light = TOKENS.split(":root[data-theme").next().unwrap_or_default();
    let dark = TOKENS.split(":root[data-theme=\"dark\"] {").nth(1).unwrap_or_default();
    let texts = if name == "dark" { vec![light, dark] } else { vec![light] };
    let mut tokens = BTreeMap::new();
    for line in texts.into_iter().flat_map(str::lines) {
        let Some((name, value)) = line.trim().strip_prefix("--").and_then(|l| l.split_once(": #"))
        else {
            continue;
        };
        let Ok(hex) = u32::from_str_radix(value.trim_end_matches(';'), 16) else { continue };
        let [_, red, green, blue] = hex.to_be_bytes();
        tokens.insert(name.to_owned(), [red, green, blue].map(linear));
    }
    tokens
}

fn linear(byte: u8) -> f64 {
    let value = f64::from(byte) / 255.0;
    if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
}

fn seen(matrix: &[Rgb; 3], colour: Rgb) -> Rgb {
    product(matrix, colour).map(|channel| channel.clamp(0.0, 1.0))
}

/// Ottosson's Oklab, in which distances look alike.
fn oklab(colour: Rgb) -> Rgb {
    const CONES: [Rgb; 3] = [
        [0.412_221, 0.536_333, 0.051_446],
        [0.211_904, 0.680_700, 0.107_397],
        [0.088_302, 0.281_719, 0.629_979],
    ];
    const LAB: [Rgb; 3] = [
        [0.210_454, 0.793_618, -0.004_072],
        [1.977_998, -2.428_592, 0.450_594],
        [0.025_904, 0.782_772, -0.808_676],
    ];
    product(&LAB, product(&CONES, colour).map(f64::cbrt))
}

fn product(matrix: &[Rgb; 3], vector: Rgb) -> Rgb {
    matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
}

fn distance(a: Rgb, b: Rgb) -> f64 {
    oklab(a).iter().zip(oklab(b)).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

/// WCAG 2.2 contrast ratio.
fn contrast(a: Rgb, b: Rgb) -> f64 {
    let luminance = |[r, g, b]: Rgb| 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
    let (a, b) = (luminance(a), luminance(b));
    a.max(b) / a.min(b)
}

#[test]
fn neighbours_in_the_stack_stay_apart() {
    let mut close = Vec::new();
    for name in ["light", "dark"] {
        let tokens = theme(name);
        for (vision, matrix) in &VISIONS {
            for pair in STACK.windows(2) {
                let [a, b] =
                    [pair[0], pair[1]].map(|c| seen(matrix, tokens[&format!("category-{c}")]));
                let distance = distance(a, b);
                if distance < 0.1 {
                    close.push(format!("{name}, {vision}: {pair:?} {distance:.3}"));
                }
            }
        }
    }
    assert!(close.is_empty(), "{close:#?}");
}

#[test]
fn text_is_readable_on_what_it_stands_on() {
    let pairs = [
        ("text", "surface"),
        ("text", "page"),
        ("text", "accent-soft"),
        ("text-2", "surface"),
        ("text-2", "surface-2"),
        ("text-2", "page"),
        ("text-3", "surface"),
        ("accent", "surface"),
        ("accent", "accent-soft"),
        ("on-accent", "accent"),
        ("fits", "fits-soft"),
        ("close", "close-soft"),
        ("over", "over-soft"),
        ("over", "surface"),
        ("chart-text", "surface"),
        ("chart-text", "chart-phase"),
    ];
    let mut weak = Vec::new();
    for name in ["light", "dark"] {
        let tokens = theme(name);
        for (ink, ground) in pairs {
            let contrast = contrast(tokens[ink], tokens[ground]);
            if contrast < 4.5 {
                weak.push(format!("{name}: {ink} on {ground} {contrast:.2}"));
            }
        }
        for (line, ground) in [("line-strong", "surface"), ("focus", "surface"), ("focus", "page")]
        {
            let contrast = contrast(tokens[line], tokens[ground]);
            if contrast < 3.0 {
                weak.push(format!("{name}: {line} on {ground} {contrast:.2}"));
            }
        }
    }
    assert!(weak.is_empty(), "{weak:#?}");
}
