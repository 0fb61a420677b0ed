//! Both device clocks against the H200's own micro-benchmarks.

use std::collections::BTreeMap;

use super::measured::{Measured, tables};
use super::rates::RatePair;
use super::tables::{Sample, Tables};
use super::tests::h200;
use super::work::WorkClass;
use super::{Clock, Tf32, nominal_seconds};

/// A name for the class of a sample, as fine as the errors are stated.
fn class(sample: &Sample) -> String {
    let work = &sample.works[0];
    match work.class {
        WorkClass::Matmul { .. } => format!("matmul {:?}", work.number),
        WorkClass::Attention { kernel, backward, .. } => {
            format!("attention {kernel:?} backward={backward}")
        }
        WorkClass::Convolution { channels_last, pass, .. } => {
            format!("conv {:?} nhwc={channels_last} {pass:?}", work.number)
        }
        WorkClass::Elementwise(kind) => format!("{kind:?}"),
        WorkClass::Reduction { kind, .. } => format!("{kind:?}"),
        WorkClass::Optimizer { kind, .. } => format!("{kind:?}"),
        WorkClass::Transfer(link) => format!("{link:?}"),
        other => format!("{other:?}"),
    }
}

/// Highest median error of the nominal clock by class of call.
const NOMINAL_LIMITS: [(&str, f64); 20] = [
    ("matmul", 0.06),
    ("attention Cudnn", 0.08),
    ("attention Flash", 0.09),
    ("attention Efficient", 0.15),
    ("conv F16 nhwc=true", 0.15),
    ("conv F16 nhwc=false", 0.25),
    ("conv F32", 0.25),
    ("Binary", 0.03),
    ("Unary", 0.03),
    ("Silu", 0.03),
    ("Gelu", 0.04),
    ("Dropout", 0.10),
    ("Widen", 0.03),
    ("Narrow", 0.03),
    ("Last", 0.10),
    ("LayerNorm", 0.10),
    ("RmsNorm", 0.10),
    ("LogSoftmax", 0.03),
    ("Foreach", 0.20),
    ("Single", 0.05),
];

/// The H200's file.
pub(super) fn tables_of_h200() -> Tables<'static> {
    tables("h200-sxm").unwrap()
}

fn samples() -> Vec<Sample> {
    tables_of_h200().samples()
}

pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

type Errors = BTreeMap<String, Vec<f64>>;

/// Relative errors of a clock by class.
fn errors(predict: impl Fn(usize, &Sample) -> f64) -> Errors {
    let mut errors = Errors::new();
    for (i, sample) in samples().iter().enumerate() {
        let error = predict(i, sample) / sample.seconds - 1.0;
        errors.entry(class(sample)).or_default().push(error);
    }
    errors
}

/// Prints the classes and returns the median size of all errors and the largest.
fn summary(title: &str, errors: &Errors) -> (f64, f64) {
    println!("{title}");
    for (class, errors) in errors {
        let mut size: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        let bias = median(&mut errors.clone());
        let worst = size.iter().copied().fold(0.0, f64::max);
        let (count, median) = (size.len(), median(&mut size));
        println!("{class:40} n {count:3} median {median:.3} bias {bias:+.3} worst {worst:.2}");
    }
    let mut all: Vec<f64> = errors.values().flatten().map(|error| error.abs()).collect();
    (median(&mut all), all.iter().copied().fold(0.0, f64::max))
}

/// Medians of the classes whose name begins so.
fn median_of(errors: &Errors, prefix: &str) -> f64 {
    let group = errors.iter().filter(|(class, _)| class.starts_with(prefix));
    median(&mut group.flat_map(|(_, errors)| errors).map(|error| error.abs()).collect::<Vec<_>>())
}

#[test]
fn nominal_stays_near_the_tables() {
    let rates = RatePair::new(&h200(), Tf32::ALL);
    let errors =
        errors(|_, sample| sample.works.iter().map(|work| nominal_seconds(&rates, work)).sum());
    summary("nominal", &errors);
    for (prefix, limit) in NOMINAL_LIMITS {
        let median = median_of(&errors, prefix);
        assert!(median <= limit, "{prefix}: {median:.3} > {limit}");
    }
}

#[test]
fn measured_reproduces_every_call() {
    let clock = Clock::measured(&h200(), Tf32::ALL).unwrap();
    let errors =
        errors(|_, sample| sample.works.iter().map(|work| clock.device(work).seconds()).sum());
    summary("measured", &errors);
    // Two operations of one kind at one size share a place: their mean is what comes out.
    for (class, errors) in errors {
        let shared = class == "Binary" || class == "Unary";
        let limit = if shared { 0.09 } else { 0.001 };
        assert!(errors.iter().all(|error| error.abs() < limit), "{class}");
    }
}

#[test]
fn leave_one_out() {
    let rates = RatePair::new(&h200(), Tf32::ALL);
    let all = samples();
    let errors = errors(|i, sample| {
        let mut rest = all.clone();
        rest.remove(i);
        let measured = Measured::from_samples(&rest, &rates);
        let time = |work| nominal_seconds(&rates, work) * measured.ratio(work);
        sample.works.iter().map(time).sum()
    });
    let (median, _) = summary("leave one out", &errors);
    assert!(median <= 0.05, "{median}");
    let products = median_of(&errors, "matmul");
    assert!(products <= 0.04, "{products}");
}
