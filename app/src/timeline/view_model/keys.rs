//! What each key does, without a browser.

use super::axis::XAxis;
use super::curves::Curves;
use super::live::stacked;
use super::num::{from_usize, to_u32};
use super::tip::phase_of;
use super::view::{Axis, View};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyAction {
    /// Another view.
    Look(View),
    /// Another lit tensor.
    Light(Option<u32>),
    /// The tensor search.
    Search,
}

/// A key with what it is pressed over.
#[derive(Clone, Copy, Debug)]
pub struct KeyPress<'a> {
    /// `KeyboardEvent.key`.
    pub key: &'a str,
    /// Whether shift is down: longer strides.
    pub shift: bool,
    /// The lit tensor.
    pub lit: Option<u32>,
}

/// What a key does to a view; `None` for keys that are not the timeline's.
pub fn press(curves: &Curves, view: &View, press: KeyPress<'_>) -> Option<KeyAction> {
    let stride = if press.shift { 10 } else { 1 };
    let looked = match press.key {
        "w" | "W" | "+" | "=" => zoom(curves, view, 1.5),
        "s" | "S" | "-" | "_" => zoom(curves, view, 1.0 / 1.5),
        "a" | "A" => pan(curves, view, -0.15),
        "d" | "D" => pan(curves, view, 0.15),
        "ArrowLeft" => step(curves, view, -stride),
        "ArrowRight" => step(curves, view, stride),
        "ArrowUp" => return Some(KeyAction::Light(neighbour(curves, view, press.lit, 1))),
        "ArrowDown" => return Some(KeyAction::Light(neighbour(curves, view, press.lit, -1))),
        "Home" => at(curves, view, 0),
        "End" => at(curves, view, last_event(curves)),
        "PageUp" | "[" => at(curves, view, phase_start(curves, view, -1)),
        "PageDown" | "]" => at(curves, view, phase_start(curves, view, 1)),
        "p" | "P" => at(curves, view, curves.data.peak_event),
        "f" | "F" => fit(curves, view, press.lit),
        "0" => view.whole(),
        "m" | "M" => pin(curves, view, press.lit),
        "y" | "Y" => View { y_scale: view.y_scale.next(), ..*view },
        "x" | "X" => {
            let axis = if view.axis == Axis::Time { Axis::Order } else { Axis::Time };
            View { axis, ..*view }
        }
        "Escape" if view.cursor_held || view.pinned.is_some() || view.selection.is_some() => {
            view.released()
        }
        "/" => return Some(KeyAction::Search),
        _ => return None,
    };
    Some(KeyAction::Look(looked))
}

/// The axis in units of its own width: enough for zooming and panning.
fn unit_axis(curves: &Curves, view: &View) -> XAxis {
    XAxis::of_view(curves, view, (0.0, 1.0))
}

/// Zooms around the cursor where it is in sight, else around the middle.
pub fn zoom(curves: &Curves, view: &View, factor: f64) -> View {
    let axis = unit_axis(curves, view);
    let cursor = view.cursor_event.map(|event| {
        let state = (event as usize + 1).min(curves.n_states() - 1);
        axis.px(axis.unit_of_state(curves, state))
    });
    let px = cursor.filter(|px| (0.0..=1.0).contains(px)).unwrap_or(0.5);
    view.with_window(axis.zoomed(px, factor).positions(curves))
}

fn pan(curves: &Curves, view: &View, share: f64) -> View {
    view.with_window(unit_axis(curves, view).panned(share).positions(curves))
}

fn last_event(curves: &Curves) -> u32 {
    to_u32(curves.n_events().saturating_sub(1))
}

/// The cursor on an event, with the window moved there if need be.
pub fn at(curves: &Curves, view: &View, event: u32) -> View {
    let event = event.min(last_event(curves));
    let held = view.held_at(event);
    let axis = unit_axis(curves, view);
    let state = (event as usize + 1).min(curves.n_states() - 1);
    let unit = axis.unit_of_state(curves, state);
    if (axis.start..=axis.end).contains(&unit) {
        return held;
    }
    held.with_window(axis.panned(axis.px(unit) - 0.5).positions(curves))
}

fn step(curves: &Curves, view: &View, by: i32) -> View {
    let start = view.cursor_event.unwrap_or(curves.data.peak_event);
    let first = view.cursor_event.is_none();
    at(curves, view, if first { start } else { start.saturating_add_signed(by) })
}

/// First event of the phase before or after the cursor's.
fn phase_start(curves: &Curves, view: &View, direction: i32) -> u32 {
    let event = view.cursor_event.unwrap_or_default();
    let mut starts = curves.timeline().phases.iter().map(|phase| phase.first_event);
    if direction < 0 {
        starts.rfind(|&start| start < event).unwrap_or_default()
    } else {
        starts.find(|&start| event < start).unwrap_or_else(|| last_event(curves))
    }
}

/// The window over the phase of an event; over the step if it was there already.
pub fn over_phase(curves: &Curves, view: &View, event: u32) -> View {
    let Some(phase) = phase_of(curves, event) else { return view.whole() };
    let window = (f64::from(phase.first_event), f64::from(phase.end_event));
    let is_there =
        (view.start_event - window.0).abs() < 0.5 && (view.end_event - window.1).abs() < 0.5;
    if is_there { view.whole() } else { view.with_window(window) }
}

/// The window over what stands out: the selection, the lit or pinned tensor's life, or the step.
fn fit(curves: &Curves, view: &View, lit: Option<u32>) -> View {
    if let Some((first, last)) = view.selection {
        return view.with_window((f64::from(first), f64::from(last) + 1.0));
    }
    let tensor = view.pinned.or(lit).filter(|&tensor| curves.has_tensor(tensor));
    let Some(tensor) = tensor else { return view.whole() };
    let (born, freed) = curves.lifetime(tensor);
    let (start, end) = (from_usize(born) - 1.0, from_usize(freed) - 1.0);
    let room = (end - start) * 0.1;
    let end = if freed >= curves.n_states() { f64::INFINITY } else { end + room };
    view.with_window(((start - room).max(-1.0), end))
}

fn pin(curves: &Curves, view: &View, lit: Option<u32>) -> View {
    match lit.filter(|&tensor| view.pinned != Some(tensor)) {
        Some(tensor) => {
            let event = view.cursor_event.unwrap_or(curves.data.peak_event);
            View { pinned: Some(tensor), ..view.held_at(event) }
        }
        None if view.pinned.is_some() => View { pinned: None, ..*view },
        None => View { cursor_held: !view.cursor_held, ..*view },
    }
}

/// The tensor above or below in the stack at the cursor.
fn neighbour(curves: &Curves, view: &View, lit: Option<u32>, direction: isize) -> Option<u32> {
    let event = view.cursor_event.unwrap_or(curves.data.peak_event);
    let state = (event as usize + 1).min(curves.n_states() - 1);
    let live: Vec<u32> = stacked(curves, state).collect();
    let place = lit.and_then(|lit| live.iter().position(|&tensor| tensor == lit));
    let next = match place {
        None => live.len().checked_sub(1)?,
        Some(place) => place.saturating_add_signed(direction).min(live.len() - 1),
    };
    live.get(next).copied()
}
