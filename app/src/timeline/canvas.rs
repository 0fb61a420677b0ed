//! Paints marks on a canvas, crisp on any display.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use wasm_bindgen::{JsCast as _, JsValue};
use web_sys::{CanvasPattern, CanvasRenderingContext2d, HtmlCanvasElement};

use super::theme::Theme;
use super::view_model::layout::Surface;
use super::view_model::num::{from_u64, to_u64};
use super::view_model::scene::{Anchor, Ink, Mark, Op};

/// Most text widths remembered.
const MAX_WIDTHS: usize = 2000;

/// A canvas with its context.
pub(super) struct Painter {
    canvas: HtmlCanvasElement,
    context: CanvasRenderingContext2d,
    surface: Surface,
    theme: Option<Theme>,
    hatches: Vec<(Ink, CanvasPattern)>,
    /// Text widths by text, in sixteenths of a pixel of font size, and boldness.
    widths: RefCell<BTreeMap<(String, u64, bool), f64>>,
    /// The font that the context has, where that is known: it parses each one that it is given.
    font: Cell<Option<Font>>,
}

/// Sixteenths of a pixel, and boldness.
type Font = (u64, bool);

impl Painter {
    /// Takes over a canvas; `None` where the browser gives no context.
    pub(super) fn new(canvas: HtmlCanvasElement) -> Option<Self> {
        let context = canvas.get_context("2d").ok()??.dyn_into().ok()?;
        Some(Self {
            canvas,
            context,
            surface: Surface::default(),
            theme: None,
            hatches: Vec::new(),
            widths: RefCell::default(),
            font: Cell::default(),
        })
    }

    /// Takes on a size and a theme; nothing is touched where they stay the same.
    pub(super) fn prepare(&mut self, surface: Surface, theme: &Theme) {
        if self.surface != surface {
            let device_px = |css: f64| u32::try_from(to_u64((css * surface.px_ratio).round()));
            self.canvas.set_width(device_px(surface.width).unwrap_or_default());
            self.canvas.set_height(device_px(surface.height).unwrap_or_default());
            self.font.set(None);
        }
        let is_new = self.theme.as_ref() != Some(theme);
        if is_new || self.surface != surface {
            let inks = [Ink::Hatch, Ink::Paper, Ink::Capacity];
            let colour = |ink: Ink| theme.palette.colour(ink).to_string();
            self.hatches = inks
                .into_iter()
                .filter_map(|ink| Some((ink, hatch(&colour(ink), surface.px_ratio)?)))
                .collect();
        }
        if is_new {
            self.widths.borrow_mut().clear();
            self.theme = Some(theme.clone());
            self.font.set(None);
        }
        self.surface = surface;
    }

    /// Width of a text in CSS pixels, remembered.
    pub(super) fn measure(&self, text: &str, size: f64, bold: bool) -> f64 {
        let key = (text.to_owned(), to_u64(size * 16.0), bold);
        if let Some(&width) = self.widths.borrow().get(&key) {
            return width;
        }
        self.set_font(size, bold);
        let width = self.context.measure_text(text).map_or(0.0, |metrics| metrics.width());
        let mut widths = self.widths.borrow_mut();
        if widths.len() >= MAX_WIDTHS {
            widths.clear();
        }
        widths.insert(key, width);
        width
    }

    /// Paints marks on the emptied canvas.
    pub(super) fn paint(&self, marks: &[Mark]) {
        let context = &self.context;
        self.to_device_px();
        context.clear_rect(
            0.0,
            0.0,
            f64::from(self.canvas.width()),
            f64::from(self.canvas.height()),
        );
        self.to_css_px();
        for mark in marks {
            self.mark(mark);
        }
    }

    fn mark(&self, mark: &Mark) {
        let context = &self.context;
        match mark {
            Mark::Fill { path, ink, alpha } => {
                context.set_global_alpha(*alpha);
                context.set_fill_style_str(&self.colour(*ink));
                if !self.fill_rects(path) {
                    self.trace(path);
                    context.fill();
                }
            }
            Mark::Hatch { path, ink, alpha } => {
                let Some((_, pattern)) = self.hatches.iter().find(|(of, _)| of == ink) else {
                    return;
                };
                context.set_global_alpha(*alpha);
                self.trace(path);
                // A path keeps its place, a pattern follows the scale: fill it in device pixels.
                context.save();
                self.to_device_px();
                context.set_fill_style_canvas_pattern(pattern);
                context.fill();
                self.restore();
            }
            Mark::Stroke { path, ink, alpha, width, dashed } => {
                context.set_global_alpha(*alpha);
                context.set_stroke_style_str(&self.colour(*ink));
                context.set_line_width(*width);
                let dash = js_sys::Array::new();
                if *dashed {
                    dash.push(&JsValue::from(3));
                    dash.push(&JsValue::from(3));
                }
                let _dash_of_two_numbers_is_valid = context.set_line_dash(&dash);
                self.trace(path);
                context.stroke();
            }
            Mark::Text { at, text, ink, size, anchor, bold } => {
                context.set_global_alpha(1.0);
                context.set_fill_style_str(&self.colour(*ink));
                self.set_font(*size, *bold);
                context.set_text_baseline("middle");
                context.set_text_align(match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "center",
                    Anchor::End => "end",
                });
                let _only_for_detached_contexts = context.fill_text(text, at.0, at.1 + 0.5);
            }
            Mark::Clip(area) => {
                context.save();
                context.begin_path();
                context.rect(area.x, area.y, area.w, area.h);
                context.clip();
            }
            Mark::Shift(by) => {
                context.save();
                let _finite = context.translate(0.0, *by);
            }
            Mark::Unclip | Mark::Unshift => self.restore(),
        }
    }

    /// Fills a path that is nothing but rectangles, each by itself: a path of a thousand takes the
    /// browser a millisecond, a thousand rectangles a tenth of it. They must not overlap.
    fn fill_rects(&self, path: &[Op]) -> bool {
        if !path.iter().all(|op| matches!(op, Op::Rect(_))) {
            return false;
        }
        for op in path {
            if let Op::Rect(area) = op {
                self.context.fill_rect(area.x, area.y, area.w, area.h);
            }
        }
        true
    }

    fn trace(&self, path: &[Op]) {
        let context = &self.context;
        context.begin_path();
        for op in path {
            match *op {
                Op::Move(x, y) => context.move_to(x, y),
                Op::Line(x, y) => context.line_to(x, y),
                Op::Close => context.close_path(),
                Op::Rect(area) => context.rect(area.x, area.y, area.w, area.h),
            }
        }
    }

    fn colour(&self, ink: Ink) -> String {
        self.theme.as_ref().map_or_else(String::new, |theme| theme.palette.colour(ink).to_string())
    }

    fn restore(&self) {
        self.context.restore();
        self.font.set(None);
    }

    fn set_font(&self, size: f64, bold: bool) {
        let font = Some((to_u64(size * 16.0), bold));
        if self.font.replace(font) == font {
            return;
        }
        let family = self.theme.as_ref().map_or("sans-serif", |theme| theme.font.as_str());
        let weight = if bold { "600 " } else { "" };
        self.context.set_font(&format!("{weight}{size}px {family}"));
    }

    fn to_device_px(&self) {
        let _finite = self.context.set_transform(1.0, 0.0, 0.0, 1.0, 0.0, 0.0);
    }

    fn to_css_px(&self) {
        let ratio = self.surface.px_ratio;
        let _finite = self.context.set_transform(ratio, 0.0, 0.0, ratio, 0.0, 0.0);
    }
}

/// Slanted lines as a repeating tile, in device pixels.
fn hatch(colour: &str, px_ratio: f64) -> Option<CanvasPattern> {
    let tile = to_u64((7.0 * px_ratio).round()).max(4);
    let document = web_sys::window()?.document()?;
    let canvas: HtmlCanvasElement = document.create_element("canvas").ok()?.dyn_into().ok()?;
    canvas.set_width(u32::try_from(tile).ok()?);
    canvas.set_height(u32::try_from(tile).ok()?);
    let context: CanvasRenderingContext2d = canvas.get_context("2d").ok()??.dyn_into().ok()?;
    let side = from_u64(tile);
    context.set_stroke_style_str(colour);
    context.set_line_width(px_ratio.max(1.0));
    context.begin_path();
    for shift in [-side, 0.0, side] {
        context.move_to(shift - 1.0, side + 1.0);
        context.line_to(shift + side + 1.0, -1.0);
    }
    context.stroke();
    context.create_pattern_with_html_canvas_element(&canvas, "repeat").ok()?
}
