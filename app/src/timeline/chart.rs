//! State of a mounted chart: what it derives from the data and the view, and when it draws.
//!
//! ```text
//! data ─► curves ─┐
//! view ─► window ─┼─► frame ─► static layer      one animation frame at most is asked for;
//! size, theme ────┘      └───► overlay ◄─ view,  it draws the layers that are dirty
//!                                         lit tensor, pointer
//! ```

use std::sync::Arc;

use leptos::html::{Canvas, Div};
use leptos::leptos_dom::helpers::{
    AnimationFrameRequestHandle, request_animation_frame_with_handle,
};
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;

use super::TimelineData;
use super::canvas::Painter;
use super::context::TimelineSettings;
use super::theme::{Theme, on_theme_change};
use super::view_model::scene::{Marked, Style, overlay, scene};
use super::view_model::{Band, Curves, Frame, Hit, Surface, View};
use super::words::TimelineWords;
use crate::dom;
use crate::erased::{derived, effect, memo};

/// Pixels of the canvas per CSS pixel on paper: about 290 to the inch.
const PRINT_PX_RATIO: f64 = 3.0;

/// Shared values whose equality is identity.
#[derive(Debug)]
pub(super) struct Same<T>(pub Arc<T>);

impl<T> Clone for Same<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> PartialEq for Same<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Where the pointer is, and over what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pointer {
    /// Version of the step that it was over; what follows means nothing in another one.
    pub step: u64,
    /// CSS pixels from the left of the surface.
    pub x: f64,
    /// CSS pixels from its top.
    pub y: f64,
    /// State and what of it lies under the pointer.
    pub over: Option<(usize, Hit)>,
    /// Kernel under the pointer.
    pub work: Option<usize>,
    /// Event whose phase's name is under the pointer.
    pub phase: Option<u32>,
}

/// A mounted chart.
#[derive(Clone, Copy)]
pub(super) struct Chart {
    /// The step, prepared.
    pub curves: Memo<Option<Same<Curves>>>,
    /// What the person chose to see.
    pub view: RwSignal<View>,
    /// The lit tensor, shared with the tables.
    pub lit: RwSignal<Option<u32>>,
    /// The band of the legend's entry under the pointer.
    pub lit_band: RwSignal<Option<Band>>,
    /// The pointer, while it is over the chart.
    pub pointer: RwSignal<Option<Pointer>>,
    /// The window, summed up.
    pub frame: Memo<Option<Same<Frame>>>,
    /// Size of the drawing surface.
    pub surface: RwSignal<Surface>,
    /// Language and unit.
    pub settings: TimelineSettings,
    /// Whether the table stands in for the chart.
    pub as_table: RwSignal<bool>,
    /// Asks the page for its tensor search.
    pub on_search: Option<Callback<()>>,
    /// The element with the canvases.
    pub root: NodeRef<Div>,
    /// Canvas of the static layer.
    pub below: NodeRef<Canvas>,
    /// Canvas of the overlay.
    pub above: NodeRef<Canvas>,
    theme: RwSignal<Option<Theme>>,
    window: Memo<View>,
    painters: StoredValue<Painters, LocalStorage>,
}

#[derive(Default)]
struct Painters {
    below: Option<Painter>,
    above: Option<Painter>,
    is_static_dirty: bool,
    is_printing: bool,
    asked: Option<AnimationFrameRequestHandle>,
}

impl Chart {
    /// Derives everything; draws once its canvases are mounted.
    pub(super) fn new(
        data: Signal<Option<Arc<TimelineData>>>,
        view: RwSignal<View>,
        lit: RwSignal<Option<u32>>,
        on_search: Option<Callback<()>>,
    ) -> Self {
        let curves = memo(move || data.get().map(|data| Same(Arc::new(Curves::new(data)))));
        let surface = RwSignal::new(Surface::default());
        let window = memo(move || View {
            cursor_event: None,
            cursor_held: false,
            pinned: None,
            selection: None,
            ..view.get()
        });
        let frame = memo(move || {
            let (surface, window) = (surface.get(), window.get());
            let is_shown = surface.width >= 1.0 && surface.height >= 1.0;
            curves
                .get()
                .filter(|_| is_shown)
                .map(|curves| Same(Arc::new(Frame::new(&curves.0, &window, surface))))
        });
        let chart = Self {
            curves,
            view,
            lit,
            lit_band: RwSignal::new(None),
            pointer: RwSignal::new(None),
            frame,
            surface,
            settings: TimelineSettings::from_context(),
            as_table: RwSignal::new(false),
            on_search,
            root: NodeRef::new(),
            below: NodeRef::new(),
            above: NodeRef::new(),
            theme: RwSignal::new(None),
            window,
            painters: StoredValue::new_local(Painters::default()),
        };
        chart.mount();
        chart.draw_on_change();
        chart
    }

    fn mount(self) {
        let before = window_event_listener(leptos::ev::beforeprint, move |_| self.print(true));
        let after = window_event_listener(leptos::ev::afterprint, move |_| self.print(false));
        on_cleanup(move || {
            before.remove();
            after.remove();
        });
        effect(move || {
            let (Some(root), Some(below), Some(above)) =
                (self.root.get(), self.below.get(), self.above.get())
            else {
                return;
            };
            self.painters.update_value(|painters| {
                painters.below = Painter::new(below.unchecked_into());
                painters.above = Painter::new(above.unchecked_into());
            });
            self.theme.set(Theme::at(&root));
            let themed = root.clone();
            on_theme_change(move || {
                self.theme.try_set(Theme::at(&themed));
            });
            dom::on_resize(&root, move |width, height| {
                let px_ratio = self.px_ratio();
                self.surface.try_set(Surface { width, height, px_ratio });
            });
        });
    }

    /// Paper is finer than displays, and white: before printing, all is drawn anew at once.
    fn print(self, is_printing: bool) {
        let Some(root) = self.root.try_get_untracked().flatten() else { return };
        self.painters.try_update_value(|painters| painters.is_printing = is_printing);
        self.theme.try_set(Theme::at(&root));
        let px_ratio = self.px_ratio();
        self.surface.try_update(|surface| surface.px_ratio = px_ratio);
        self.painters.try_update_value(|painters| painters.is_static_dirty = true);
        self.draw();
    }

    /// Pixels of the canvas per CSS pixel.
    fn px_ratio(self) -> f64 {
        if self.painters.try_with_value(|painters| painters.is_printing).unwrap_or_default() {
            PRINT_PX_RATIO
        } else {
            leptos::prelude::window().device_pixel_ratio()
        }
    }

    fn draw_on_change(self) {
        effect(move || {
            self.curves.track();
            self.window.track();
            self.surface.track();
            self.theme.track();
            self.settings.words.track();
            self.settings.unit.track();
            self.ask_to_draw(true);
        });
        effect(move || {
            self.view.track();
            self.lit.track();
            self.pointer.track();
            self.lit_band.track();
            self.ask_to_draw(false);
        });
        on_cleanup(move || {
            self.painters.try_update_value(|painters| {
                if let Some(asked) = painters.asked.take() {
                    asked.cancel();
                }
            });
        });
    }

    fn ask_to_draw(self, is_static_dirty: bool) {
        self.painters.try_update_value(|painters| {
            painters.is_static_dirty |= is_static_dirty;
            if painters.asked.is_none() {
                let draw = move || self.draw();
                painters.asked = request_animation_frame_with_handle(draw).ok();
            }
        });
    }

    fn draw(self) {
        let frame = self.frame.try_get_untracked().flatten();
        let curves = self.curves.try_get_untracked().flatten();
        let theme = self.theme.try_get_untracked().flatten();
        let Some(view) = self.view.try_get_untracked() else { return };
        let px_ratio = self.px_ratio();
        self.painters.try_update_value(|painters| {
            painters.asked = None;
            let (Some(Same(curves)), Some(Same(frame)), Some(theme)) = (curves, frame, theme)
            else {
                return;
            };
            let voice = self.settings.voice_now();
            let surface = frame.layout.surface;
            // A window that moves to another display keeps its size.
            if (px_ratio - surface.px_ratio).abs() > 1e-6 {
                self.surface.set(Surface { px_ratio, ..surface });
            }
            if let Some(painter) = painters.below.as_mut().filter(|_| painters.is_static_dirty) {
                painter.prepare(surface, &theme);
                let measure = |text: &str, size: f64, bold: bool| painter.measure(text, size, bold);
                let style = Style { words: voice.words, unit: voice.unit, measure: &measure };
                painter.paint(&scene(&curves, &frame, &view, &style));
                painters.is_static_dirty = false;
            }
            if let Some(painter) = &mut painters.above {
                painter.prepare(surface, &theme);
                let pointer = self.pointer.get_untracked();
                let pointer = pointer.filter(|pointer| pointer.step == curves.data.id);
                let marked = Marked {
                    hovered: self.lit.get_untracked(),
                    work: pointer.and_then(|pointer| pointer.work),
                    band: self.lit_band.get_untracked(),
                };
                painter.paint(&overlay(&curves, &frame, &view, marked));
            }
        });
    }

    /// A text that follows the language.
    pub(super) fn word(self, read: fn(&TimelineWords) -> &'static str) -> Signal<&'static str> {
        let words = self.settings.words;
        derived(move || read(words.get()))
    }

    /// The step and its window, for handlers.
    pub(super) fn now(self) -> Option<(Arc<Curves>, Arc<Frame>)> {
        let curves = self.curves.try_get_untracked().flatten()?;
        let frame = self.frame.try_get_untracked().flatten()?;
        Some((curves.0, frame.0))
    }

    /// Sets the view where it differs.
    pub(super) fn look(self, view: View) {
        if self.view.try_get_untracked().is_some_and(|now| now != view) {
            self.view.set(view);
        }
    }

    /// Lights a tensor where it is not lit yet.
    pub(super) fn light(self, tensor: Option<u32>) {
        if self.lit.try_get_untracked().is_some_and(|now| now != tensor) {
            self.lit.set(tensor);
        }
    }
}
