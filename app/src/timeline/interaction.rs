//! Pointer, wheel and keys on the chart become changes of the view.

use leptos::ev::{KeyboardEvent, PointerEvent, WheelEvent};
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;

use super::chart::{Chart, Pointer};
use super::view_model::axis::XAxis;
use super::view_model::keys::{KeyAction, KeyPress, over_phase, press};
use super::view_model::scene::{brush_px, work_at};
use super::view_model::{Curves, Frame, Hit, View};

/// Pixels that the pointer may move in a click.
const CLICK_SLOP: f64 = 4.0;
/// How near an edge of the brush must be to be grabbed, pixels.
const GRAB: f64 = 7.0;

/// What a pressed pointer does.
#[derive(Clone, Copy, Debug)]
enum Gesture {
    /// Moves the window; a click if it hardly moves.
    Pan { from: f64, axis: XAxis, moved: bool },
    /// Selects events.
    Select { from: u32 },
    /// Moves one edge of the brush; the other stays.
    BrushEdge { fixed: f64 },
    /// Moves the brush.
    Brush { from: f64, axis: XAxis },
    /// Two fingers: their distance and middle when the second came down.
    Pinch { distance: f64, middle: f64, axis: XAxis },
}

impl Gesture {
    /// Whether it may still turn out to be a click.
    fn is_still(self) -> bool {
        matches!(self, Self::Pan { moved: false, .. })
    }
}

/// Pointers that are down, and what they do.
#[derive(Clone, Debug, Default)]
struct Hands {
    down: Vec<(i32, f64)>,
    gesture: Option<Gesture>,
}

/// Handlers of one chart.
#[derive(Clone, Copy)]
pub(super) struct Interaction {
    chart: Chart,
    hands: StoredValue<Hands>,
}

impl Interaction {
    pub(super) fn new(chart: Chart) -> Self {
        Self { chart, hands: StoredValue::new(Hands::default()) }
    }

    pub(super) fn pointer_down(self, event: &PointerEvent) {
        let Some((curves, frame)) = self.chart.now() else { return };
        if event.button() != 0 {
            return;
        }
        capture(event);
        let (x, y) = place(event);
        let view = self.chart.view.get_untracked();
        self.hands.update_value(|hands| {
            hands.down.push((event.pointer_id(), x));
            hands.gesture = match hands.down[..] {
                [(_, first), (_, second)] => Some(Gesture::Pinch {
                    distance: (first - second).abs().max(1.0),
                    middle: f64::midpoint(first, second),
                    axis: frame.x,
                }),
                [_] if y >= frame.layout.minimap.y => {
                    Some(brush_gesture(&curves, &frame, &view, x))
                }
                [_] if event.shift_key() => frame.event_at(x).map(|from| Gesture::Select { from }),
                [_] => Some(Gesture::Pan { from: x, axis: frame.x, moved: false }),
                _ => None,
            };
        });
    }

    pub(super) fn pointer_move(self, event: &PointerEvent) {
        let Some((curves, frame)) = self.chart.now() else { return };
        let (x, y) = place(event);
        let mut hands = self.hands.get_value();
        if let Some(down) = hands.down.iter_mut().find(|(id, _)| *id == event.pointer_id()) {
            down.1 = x;
        }
        let view = self.chart.view.get_untracked();
        let window = |axis: XAxis| view.with_window(axis.positions(&curves));
        match &mut hands.gesture {
            Some(Gesture::Pan { from, axis, moved }) => {
                *moved |= (x - *from).abs() > CLICK_SLOP;
                if *moved {
                    self.chart.look(window(axis.panned(*from - x)));
                }
            }
            Some(Gesture::Select { from }) => {
                let plot = frame.layout.plot;
                let inside = x.clamp(plot.x, plot.right() - 1.0);
                if let Some(to) = frame.event_at(inside) {
                    let selection = Some(((*from).min(to), (*from).max(to)));
                    self.chart.look(View { selection, ..view });
                }
            }
            Some(Gesture::BrushEdge { fixed }) => {
                let map = frame.layout.minimap_axis(&curves, view.axis);
                let (a, b) = (map.unit(*fixed), map.unit(x));
                self.chart.look(window(frame.x.windowed(a.min(b), a.max(b))));
            }
            Some(Gesture::Brush { from, axis }) => {
                let map = frame.layout.minimap_axis(&curves, view.axis);
                let by = (x - *from) * map.units_per_px();
                self.chart.look(window(axis.windowed(axis.start + by, axis.end + by)));
            }
            Some(Gesture::Pinch { distance, middle, axis }) => {
                if let [(_, first), (_, second)] = hands.down[..] {
                    let now = f64::midpoint(first, second);
                    let factor = (first - second).abs().max(1.0) / *distance;
                    self.chart.look(window(axis.panned(*middle - now).zoomed(now, factor)));
                }
            }
            None => self.hover(&curves, &frame, (x, y)),
        }
        if hands.gesture.is_some_and(|gesture| !gesture.is_still()) {
            self.chart.pointer.set(None);
        }
        self.hands.set_value(hands);
    }

    pub(super) fn pointer_up(self, event: &PointerEvent) {
        let Some(hands) = self.hands.try_get_value() else { return };
        self.hands.update_value(|hands| {
            hands.down.retain(|(id, _)| *id != event.pointer_id());
            hands.gesture = None;
        });
        let is_click = hands.gesture.is_some_and(Gesture::is_still);
        if is_click && event.type_() == "pointerup" {
            self.click(place(event));
        }
    }

    pub(super) fn pointer_leave(self, event: &PointerEvent) {
        // A finger that is lifted leaves what it tapped.
        if event.pointer_type() == "touch" {
            self.chart.pointer.set(None);
        } else if self.hands.with_value(|hands| hands.gesture.is_none()) {
            self.chart.pointer.set(None);
            self.chart.light(None);
        }
    }

    /// Follows the pointer with cursor, light and tooltip.
    fn hover(self, curves: &Curves, frame: &Frame, (x, y): (f64, f64)) {
        let plot = frame.layout.plot;
        let over = frame.hit(curves, x, y).zip(frame.column_at(x));
        let in_compute = frame.layout.compute.is_some_and(|area| area.holds(x, y));
        let work = if in_compute { work_at(curves, frame, x) } else { None };
        let over = over.map(|(hit, column)| (column.state, hit));
        let lit = match over {
            Some((_, Hit::Tensor(tensor))) => Some(tensor),
            _ => None,
        };
        let phase = frame.event_at(x).filter(|_| frame.layout.phases.holds(x, y));
        self.chart.pointer.set(Some(Pointer { step: curves.data.id, x, y, over, work, phase }));
        self.chart.light(lit);
        let view = self.chart.view.get_untracked();
        if !view.cursor_held && y < plot.bottom() {
            let cursor_event = frame.event_at(x).or(view.cursor_event);
            self.chart.look(View { cursor_event, ..view });
        }
    }

    /// Holds the cursor and pins the tensor under it; the same tensor again lets go.
    fn click(self, (x, y): (f64, f64)) {
        let Some((curves, frame)) = self.chart.now() else { return };
        let Some(event) = frame.event_at(x).filter(|_| y < frame.layout.ticks.bottom()) else {
            return;
        };
        let view = self.chart.view.get_untracked();
        if frame.layout.phases.holds(x, y) {
            return self.chart.look(over_phase(&curves, &view, event));
        }
        let tensor = match frame.hit(&curves, x, y) {
            Some(Hit::Tensor(tensor)) => Some(tensor),
            _ => None,
        };
        let again = view.cursor_held && tensor == view.pinned;
        self.chart.look(if again {
            View { cursor_event: Some(event), ..view.released() }
        } else {
            View { pinned: tensor, ..view.held_at(event) }
        });
        self.chart.light(tensor);
    }

    pub(super) fn wheel(self, event: &WheelEvent) {
        let Some((curves, frame)) = self.chart.now() else { return };
        let line = match event.delta_mode() {
            WheelEvent::DOM_DELTA_LINE => 16.0,
            WheelEvent::DOM_DELTA_PAGE => 400.0,
            _ => 1.0,
        };
        let (dx, dy) = (event.delta_x() * line, event.delta_y() * line);
        let sideways = if event.shift_key() { dx + dy } else { dx };
        event.prevent_default();
        let axis = if event.shift_key() || dx.abs() > dy.abs() {
            frame.x.panned(sideways)
        } else {
            // A pinch on a touch pad arrives as a wheel with ctrl and small steps.
            let speed = if event.ctrl_key() { 0.012 } else { 0.002 };
            frame.x.zoomed(f64::from(event.offset_x()), (-dy * speed).exp())
        };
        let view = self.chart.view.get_untracked();
        self.chart.look(view.with_window(axis.positions(&curves)));
    }

    pub(super) fn double_click(self) {
        self.chart.look(self.chart.view.get_untracked().whole().released());
    }

    pub(super) fn key_down(self, event: &KeyboardEvent) {
        if event.ctrl_key() || event.meta_key() || event.alt_key() {
            return;
        }
        let Some((curves, _)) = self.chart.now() else { return };
        let view = self.chart.view.get_untracked();
        let lit = self.chart.lit.get_untracked();
        let key = event.key();
        match press(&curves, &view, KeyPress { key: &key, shift: event.shift_key(), lit }) {
            Some(KeyAction::Look(view)) => self.chart.look(view),
            Some(KeyAction::Light(tensor)) => {
                let event = view.cursor_event.unwrap_or(curves.data.peak_event);
                self.chart.look(view.held_at(event));
                self.chart.light(tensor);
            }
            Some(KeyAction::Search) => match self.chart.on_search {
                Some(search) => search.run(()),
                None => return,
            },
            None => return,
        }
        // The keyboard takes over from the pointer.
        self.chart.pointer.set(None);
        event.prevent_default();
    }
}

fn brush_gesture(curves: &Curves, frame: &Frame, view: &View, x: f64) -> Gesture {
    let (x0, x1) = brush_px(curves, frame, view);
    let map = frame.layout.minimap;
    let is_whole = x0 <= map.x + 1.0 && map.right() - 1.0 <= x1;
    if (x - x0).abs() <= GRAB && !is_whole {
        Gesture::BrushEdge { fixed: x1 }
    } else if (x - x1).abs() <= GRAB && !is_whole {
        Gesture::BrushEdge { fixed: x0 }
    } else if x0 < x && x < x1 && !is_whole {
        Gesture::Brush { from: x, axis: frame.x }
    } else {
        Gesture::BrushEdge { fixed: x }
    }
}

fn capture(event: &PointerEvent) {
    let target = event.target().and_then(|target| target.dyn_into::<web_sys::Element>().ok());
    if let Some(target) = target {
        // Fails when the pointer is already gone; then there is nothing to follow.
        let _gone = target.set_pointer_capture(event.pointer_id());
    }
}

fn place(event: &PointerEvent) -> (f64, f64) {
    (f64::from(event.offset_x()), f64::from(event.offset_y()))
}
