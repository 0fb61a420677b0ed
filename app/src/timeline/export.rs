//! The chart as a file: SVG text, or a PNG at twice the size.

use std::sync::Arc;

use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use wasm_bindgen::closure::Closure;
use web_sys::{Blob, HtmlCanvasElement};

use super::canvas::Painter;
use super::svg;
use super::theme::Theme;
use super::view_model::layout::Area;
use super::view_model::scene::{Ink, Mark, Marked, Op, Style, caption, overlay, scene, text_width};
use super::view_model::tip::Voice;
use super::view_model::{Curves, Frame, Surface, TimelineData, View};

/// What is exported.
#[derive(Clone)]
pub struct Picture {
    /// The step.
    pub data: Arc<TimelineData>,
    /// Window and pins.
    pub view: View,
    /// Language and unit.
    pub voice: Voice<'static>,
    /// Width and height of the chart, CSS pixels; title and legend come on top.
    pub size: (f64, f64),
    /// Written above it; nothing if empty.
    pub title: String,
}

/// Marks with the surface they fill.
struct Sheet {
    marks: Vec<Mark>,
    surface: Surface,
}

impl Picture {
    fn sheet(&self, px_ratio: f64, measure: &dyn Fn(&str, f64, bool) -> f64) -> Sheet {
        let (width, height) = self.size;
        let curves = Curves::new(Arc::clone(&self.data));
        let frame = Frame::new(&curves, &self.view, Surface { width, height, px_ratio });
        let style = Style { words: self.voice.words, unit: self.voice.unit, measure };
        let caption = caption(&curves, width, &self.title, &style);
        let whole = caption.title_height + height + caption.legend_height;
        let paper = Area { x: 0.0, y: 0.0, w: width, h: whole };
        let paper = Mark::Fill { path: Vec::from([Op::Rect(paper)]), ink: Ink::Paper, alpha: 1.0 };
        let mut marks = Vec::from([paper]);
        marks.extend(caption.title);
        marks.push(Mark::Shift(caption.title_height));
        marks.extend(scene(&curves, &frame, &self.view, &style));
        marks.extend(overlay(&curves, &frame, &self.view, Marked::default()));
        marks.push(Mark::Unshift);
        marks.push(Mark::Shift(caption.title_height + height));
        marks.extend(caption.legend);
        marks.push(Mark::Unshift);
        Sheet { marks, surface: Surface { width, height: whole, px_ratio } }
    }

    /// An SVG document in the page's colours.
    pub fn svg(&self) -> Option<String> {
        let theme = Theme::at(&document().document_element()?)?;
        let sheet = self.sheet(1.0, &text_width);
        Some(svg::document(&sheet.marks, sheet.surface, &theme.palette, &self.title))
    }

    /// A PNG at twice the size, handed to `then` when the browser has made it.
    pub fn png(&self, then: impl FnOnce(Blob) + 'static) -> Option<()> {
        const PX_RATIO: f64 = 2.0;
        let theme = Theme::at(&document().document_element()?)?;
        let canvas: HtmlCanvasElement =
            document().create_element("canvas").ok()?.dyn_into().ok()?;
        let mut painter = Painter::new(canvas.clone())?;
        let nothing = Surface { width: 1.0, height: 1.0, px_ratio: PX_RATIO };
        painter.prepare(nothing, &theme);
        let sheet = self.sheet(PX_RATIO, &|text, size, bold| painter.measure(text, size, bold));
        painter.prepare(sheet.surface, &theme);
        painter.paint(&sheet.marks);
        let done = Closure::once_into_js(move |blob: Option<Blob>| {
            if let Some(blob) = blob {
                then(blob);
            }
        });
        canvas.to_blob(done.unchecked_ref()).ok()
    }
}
