//! A prediction that is the capture itself is exact, whatever the capture: the comparison adds no
//! error of its own.

use conformance::{cases, timeline_of};
use simulator::accuracy::{Trace, curve_gap_pct, events_matched_pct};
use simulator::wire::capture::CaseCapture;

fn check(capture: &CaseCapture) {
    let id = &capture.id;
    let measured = Trace::of_capture(capture);
    let peak = capture.peak.traced_step_allocated;
    assert_eq!(measured.peak().0, peak, "{id}: the recorded peak is the curve's");
    let predicted = Trace::of_timeline(&timeline_of(capture));
    assert_eq!(predicted.live, measured.live, "{id}: curve");
    assert!(curve_gap_pct(&predicted, &measured, peak).abs() < f64::EPSILON, "{id}: gap");
    let matched = events_matched_pct(&predicted, &measured);
    assert!((matched - 100.0).abs() < f64::EPSILON, "{id}: {matched} % matched");
}

#[test]
fn every_capture_predicts_itself() {
    let captures = cases(&[""]);
    assert!(50 < captures.len(), "{} captures", captures.len());
    for capture in &captures {
        check(capture);
    }
}

#[test]
fn parts_follow_the_marks() {
    for capture in cases(&["llama1b-bf16-accum4", "llama1b-bf16-clip", "mg-gpt1b-tp1."]) {
        let trace = Trace::of_capture(&capture);
        let words: Vec<&str> = trace.spans.iter().map(|span| span.part.word()).collect();
        let expect: &[&str] = match capture.id.as_str() {
            "llama1b-bf16-clip" => &["forward", "backward", "clip", "optimizer", "zero_grad"],
            "mg-gpt1b-tp1" => &["rest"],
            _ => &[
                "forward",
                "backward",
                "forward",
                "backward",
                "forward",
                "backward",
                "forward",
                "backward",
                "optimizer",
                "zero_grad",
            ],
        };
        assert_eq!(words, expect, "{}", capture.id);
        assert_eq!(trace.spans.last().map(|span| span.events.end), Some(trace.requests.len()));
    }
}
