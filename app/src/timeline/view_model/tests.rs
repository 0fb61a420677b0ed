//! What must hold for every step, window and width.

use simulator::wire::timeline::{Category, PhaseKind};

use super::axis::XAxis;
use super::band::Band;
use super::columns::columns;
use super::fixture::{Dice, Step, random, surface};
use super::keys::{KeyAction, KeyPress, press};
use super::live::{Hit, bytes_below, hit, slabs, stacked};
use super::num::{from_u64, from_usize};
use super::scene::{Mark, Op, Style, scene, text_width};
use super::strata::{Threshold, strata};
use super::{Axis, Curves, Frame, View, YScale, live_at, range, table, tip};
use crate::format::Unit;
use crate::timeline::words::ENGLISH;

/// Windows of all sizes on both axes.
fn views(curves: &Curves, seed: u64) -> Vec<View> {
    let mut dice = Dice(seed);
    let n = curves.n_events() as u64;
    let mut views = Vec::new();
    for axis in [Axis::Time, Axis::Order] {
        views.push(View { axis, ..View::default() });
        for _ in 0..6 {
            let start = from_u64(dice.roll(n)) - from_u64(dice.roll(100)) / 100.0;
            let end = start + 1.0 + from_u64(dice.roll(n));
            views.push(View { axis, ..View::default() }.with_window((start, end)));
        }
    }
    views
}

fn style() -> Style<'static> {
    Style { words: &ENGLISH, unit: Unit::Gib, measure: &text_width }
}

#[test]
fn bands_and_extremes_equal_a_full_pass() {
    let curves = random(1, 700);
    for state in 0..curves.n_states() {
        let mut bytes = [0; super::band::N_BANDS];
        for tensor in stacked(&curves, state) {
            bytes[curves.band(tensor).index()] += curves.bytes(tensor);
        }
        assert_eq!(curves.bands(state), bytes, "state {state}");
        assert_eq!(curves.live(state), bytes.iter().sum::<u64>(), "state {state}");
    }
    let mut dice = Dice(9);
    for _ in 0..300 {
        let first = usize::try_from(dice.roll(700)).unwrap();
        let last = first + usize::try_from(dice.roll(701 - first as u64)).unwrap();
        let run = curves.extremes(first..=last);
        let live = || (first..=last).map(|state| curves.live(state));
        assert_eq!(Some(run.high_live), live().max(), "{first}..={last}");
        assert_eq!(Some(run.low_live), live().min(), "{first}..={last}");
        assert_eq!(live().position(|bytes| bytes == run.high_live), Some(run.highest - first));
        let reserved = (first..=last).map(|state| curves.reserved(state)).max();
        assert_eq!(Some(run.high_reserved), reserved, "{first}..={last}");
    }
}

#[test]
fn columns_lose_no_extreme_and_leave_no_gap() {
    for (seed, n_events) in [(2, 30), (3, 900), (4, 20_000)] {
        let curves = random(seed, n_events);
        for view in views(&curves, seed) {
            for (width, ratio) in [(300.0, 1.0), (1100.0, 2.0)] {
                let axis = XAxis::of_view(&curves, &view, (40.0, width));
                let columns = columns(&curves, &axis, ratio);
                let (first, last) = (columns[0].first, columns[columns.len() - 1].last);
                let high = columns.iter().map(|column| curves.live(column.state)).max();
                let low = columns.iter().map(|column| column.low_live).min();
                let reserved = columns.iter().map(|column| column.high_reserved).max();
                let run = curves.extremes(first..=last);
                assert_eq!(high, Some(run.high_live));
                assert_eq!(low, Some(run.low_live));
                assert_eq!(reserved, Some(run.high_reserved));
                if view.is_whole() {
                    assert_eq!((first, last), (0, curves.n_states() - 1));
                }
                assert!((columns[0].x0 - 40.0).abs() < 1e-9);
                for pair in columns.windows(2) {
                    assert!((pair[0].x1 - pair[1].x0).abs() < 1e-9);
                    assert!(pair[0].state <= pair[1].state);
                    assert!(pair[1].first <= pair[0].last + 1, "no state between columns");
                }
            }
        }
    }
}

/// One event of 150,000 reaches the peak; it must be painted at its full height.
#[test]
fn a_peak_of_one_event_is_painted() {
    let mut step = Step::new();
    step.before(4 << 30, Category::Weights);
    for event in 0..75_000 {
        step.wait(1000);
        let bytes = if event == 40_321 { 30 << 30 } else { 64 << 20 };
        let tensor = step.alloc(bytes, Category::Temporaries);
        step.free(tensor);
    }
    step.phase(PhaseKind::Forward, 0);
    let curves = step.curves();
    for axis in [Axis::Time, Axis::Order] {
        let view = View { axis, y_scale: YScale::Live, ..View::default() };
        let frame = Frame::new(&curves, &view, surface(400.0, 1.0));
        let peak_px = frame.y.px_of(curves.floor_bytes() + (34 << 30));
        let marks = scene(&curves, &frame, &view, &style());
        let painted = marks.iter().any(|mark| match mark {
            Mark::Fill { path, ink, .. } if *ink == super::scene::Ink::Band(Band::Temporaries) => {
                path.iter().any(|op| matches!(op, Op::Line(_, y) if (y - peak_px).abs() <= 1.0))
            }
            _ => false,
        });
        assert!(painted, "{axis:?}");
        let x = frame.px_of_event(&curves, curves.data.peak_event).unwrap();
        assert_eq!(frame.event_at(x), Some(curves.data.peak_event), "{axis:?}");
    }
}

#[test]
fn every_live_tensor_is_hit_in_its_middle() {
    let curves = random(5, 400);
    for state in (0..curves.n_states()).step_by(37) {
        let mut below = curves.floor_bytes();
        for tensor in stacked(&curves, state) {
            assert_eq!(bytes_below(&curves, tensor, state), below);
            let middle = below + curves.bytes(tensor) / 2;
            assert_eq!(hit(&curves, state, middle), Hit::Tensor(tensor));
            below += curves.bytes(tensor);
        }
        assert_eq!(below, curves.floor_bytes() + curves.live(state));
        let slack = curves.reserved(state) - curves.live(state);
        let above = hit(&curves, state, below);
        assert_eq!(above, if slack > 0 { Hit::Slack } else { Hit::Free });
        assert_eq!(hit(&curves, state, below + slack), Hit::Free);
    }
    assert_eq!(hit(&curves, 0, 0), Hit::AlreadyUsed);
    assert_eq!(hit(&curves, 0, curves.floor_bytes() - 1), Hit::OutsidePool);
}

#[test]
fn a_tensor_is_outlined_where_it_lies() {
    let curves = random(6, 500);
    for view in views(&curves, 6) {
        let axis = XAxis::of_view(&curves, &view, (0.0, 500.0));
        let columns = columns(&curves, &axis, 1.0);
        for tensor in (0..curves.order().len()).step_by(11).map(super::num::to_u32) {
            let slabs = slabs(&curves, &columns, tensor);
            for column in columns.iter().filter(|c| curves.is_live(tensor, c.state)) {
                let slab = slabs.iter().find(|s| s.x0 <= column.x0 && column.x1 <= s.x1 + 1e-9);
                let below = bytes_below(&curves, tensor, column.state);
                assert_eq!(slab.map(|slab| slab.below), Some(below));
            }
            let (born, freed) = curves.lifetime(tensor);
            let in_sight = columns.iter().any(|c| born <= c.last && c.first < freed);
            assert_eq!(slabs.is_empty(), !in_sight, "a tensor in sight gets at least a sliver");
        }
    }
}

#[test]
fn strata_follow_the_upper_edges_of_large_tensors() {
    let curves = random(7, 600);
    let view = View::default();
    let axis = XAxis::of_view(&curves, &view, (0.0, 300.0));
    let columns = columns(&curves, &axis, 1.0);
    let edges = strata(&curves, &columns, Threshold { bytes: 1 << 28, width: 5.0 });
    assert!(!edges.is_empty());
    for edge in edges {
        for pair in edge.chunks(2) {
            let column =
                columns.iter().find(|column| column.x0.total_cmp(&pair[0].0).is_eq()).unwrap();
            let is_edge = stacked(&curves, column.state).any(|tensor| {
                bytes_below(&curves, tensor, column.state) + curves.bytes(tensor) == pair[0].1
            });
            assert!(is_edge);
        }
    }
}

#[test]
fn live_tensors_come_largest_first() {
    let curves = random(8, 300);
    for event in [0, 150, 299, 4000] {
        let live = live_at(&curves, event);
        assert!(live.windows(2).all(|pair| curves.bytes(pair[0]) >= curves.bytes(pair[1])));
        let state = (event as usize + 1).min(curves.n_states() - 1);
        let sum: u64 = live.iter().map(|&tensor| curves.bytes(tensor)).sum();
        assert_eq!(sum, curves.live(state));
    }
}

#[test]
fn zooming_keeps_what_is_under_the_pointer() {
    let curves = random(10, 2000);
    for axis in [Axis::Time, Axis::Order] {
        let mut axis = XAxis::whole(&curves, axis, (50.0, 800.0));
        for factor in [1.3, 2.0, 5.0, 0.8, 40.0] {
            let zoomed = axis.zoomed(400.0, factor);
            assert!((zoomed.unit(400.0) - axis.unit(400.0)).abs() < 1e-6 * axis.limits.1);
            assert!(zoomed.limits.0 <= zoomed.start && zoomed.end <= zoomed.limits.1);
            axis = zoomed;
        }
        for px in [-1e6, -20.0, 3.0, 1e6] {
            let panned = axis.panned(px);
            let span = axis.end - axis.start;
            assert!((panned.end - panned.start - span).abs() < 1e-6 * span);
            assert!(panned.limits.0 <= panned.start && panned.end <= panned.limits.1 + 1e-6);
        }
        let out = axis.zoomed(300.0, 1e-9);
        assert_eq!(out.positions(&curves), (-1.0, f64::INFINITY));
    }
}

#[test]
fn windows_survive_the_url_and_the_other_axis() {
    let curves = random(11, 800);
    let view = View::default().with_window((100.25, 300.75));
    let axis = XAxis::of_view(&curves, &view, (0.0, 640.0));
    let (start, end) = axis.positions(&curves);
    // A position in a state that lasts no time has no time of its own.
    assert!((start - 100.25).abs() < 4.0 && (end - 300.75).abs() < 4.0);
    let again = View::decode(&View::default().with_window((start, end)).encode());
    let order = XAxis::of_view(&curves, &View { axis: Axis::Order, ..again }, (0.0, 640.0));
    assert!((order.start - start).abs() < 1e-3 && (order.end - end).abs() < 1e-3);
}

#[test]
fn keys_move_zoom_and_pin() {
    let curves = random(12, 500);
    let look = |view: &View, key: &str, lit: Option<u32>| match press(
        &curves,
        view,
        KeyPress { key, shift: false, lit },
    ) {
        Some(KeyAction::Look(view)) => view,
        other => panic!("{key}: {other:?}"),
    };
    let view = View::default();
    let at_peak = look(&view, "p", None);
    assert_eq!(at_peak.cursor_event, Some(curves.data.peak_event));
    assert!(at_peak.cursor_held && at_peak.is_whole());
    let next = look(&at_peak, "ArrowRight", None);
    assert_eq!(next.cursor_event, Some(curves.data.peak_event + 1));
    let zoomed = look(&look(&next, "w", None), "w", None);
    assert!(!zoomed.is_whole());
    let home = look(&zoomed, "Home", None);
    assert_eq!(home.cursor_event, Some(0));
    assert!(home.start_event <= 0.0, "the window follows the cursor");
    assert!(look(&zoomed, "0", None).is_whole());
    assert_eq!(look(&view, "y", None).y_scale, YScale::Capacity);
    let pinned = look(&view, "m", Some(3));
    assert_eq!(pinned.pinned, Some(3));
    let fitted = look(&pinned, "f", None);
    let (born, _) = curves.lifetime(3);
    assert!(fitted.start_event <= from_usize(born) - 1.0);
    assert_eq!(look(&fitted, "Escape", None).pinned, None);
    let slash = KeyPress { key: "/", shift: false, lit: None };
    assert_eq!(press(&curves, &view, slash), Some(KeyAction::Search));
    assert_eq!(press(&curves, &view, KeyPress { key: "q", ..slash }), None);
}

#[test]
fn totals_of_a_range_add_up() {
    let curves = random(13, 400);
    for (first, last) in [(0, 399), (10, 10), (50, 300), (200, 100_000)] {
        let totals = range::totals(&curves, (first, last)).unwrap();
        let net = totals.allocated_bytes.cast_signed() - totals.freed_bytes.cast_signed();
        assert_eq!(totals.net_bytes, net);
        assert_eq!(totals.events, totals.allocations + totals.frees);
    }
}

#[test]
fn rows_of_the_table_stand_at_the_phases_peaks() {
    let curves = random(14, 600);
    let rows = table::phase_rows(&curves);
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!(row.categories.iter().sum::<u64>(), row.live);
        assert_eq!(row.live, curves.live(row.peak_event as usize + 1));
    }
    let highest = rows.iter().map(|row| row.live).max();
    let in_phases = curves.extremes(1..=curves.n_states() - 1);
    assert_eq!(highest, Some(in_phases.high_live));
}

#[test]
fn a_tip_names_the_tensor() {
    let mut step = Step::new();
    step.before(1 << 30, Category::Weights);
    let tensor = step.alloc(3 << 30, Category::Activations);
    step.phase(PhaseKind::Forward, 0);
    let curves = step.curves();
    let voice = tip::Voice { words: &ENGLISH, unit: Unit::Gib };
    let tip = tip::tensor_tip(&curves, tensor, voice);
    assert_eq!(tip.title, "x");
    assert_eq!(tip.subtitle, "Activations: MLP · linear · mlp");
    let values: Vec<String> =
        tip.rows.iter().map(|(_, value)| value.replace('\u{a0}', " ")).collect();
    assert_eq!(values[0], "3 GiB · 3,221,225,472 B");
    assert_eq!(values[2], "outlives the step");
    assert_eq!(values[3], "75 %");
}

/// An empty step and one without bytes must not break the axes.
#[test]
fn nothing_is_drawn_without_panic() {
    for n_events in [0, 1] {
        let mut step = Step::new();
        for _ in 0..n_events {
            step.alloc(0, Category::Inputs);
        }
        let curves = step.curves();
        for y_scale in [YScale::Auto, YScale::Live, YScale::Window, YScale::Capacity] {
            let view = View { y_scale, ..View::default() };
            let frame = Frame::new(&curves, &view, surface(200.0, 1.0));
            let marks = scene(&curves, &frame, &view, &style());
            let finite = |op: &Op| match *op {
                Op::Move(x, y) | Op::Line(x, y) => x.is_finite() && y.is_finite(),
                Op::Rect(area) => [area.x, area.y, area.w, area.h].iter().all(|v| v.is_finite()),
                Op::Close => true,
            };
            for mark in &marks {
                if let Mark::Fill { path, .. } | Mark::Stroke { path, .. } = mark {
                    assert!(path.iter().all(finite), "{y_scale:?}");
                }
            }
        }
    }
}
