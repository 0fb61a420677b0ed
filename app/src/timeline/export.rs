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
use super::view_model::scene::{Ink, Mark, Marked, Op, Style, overlay, scene, text_width};
use super::view_model::tip::Voice;
use super::view_model::{Curves, Frame, Surface, TimelineData, View};

/// What is exported.
#[derive(Clone)]
pub struct Picture<'a> {
    /// The step.
    pub data: Arc<TimelineData>,
    /// Window and pins.
    pub view: View,
    /// Language and unit.
    pub voice: Voice<'a>,
    /// Width and height, CSS pixels.
    pub size: (f64, f64),
}

impl Picture<'_> {
    fn marks(&self, px_ratio: f64, measure: &dyn Fn(&str, f64, bool) -> f64) -> Vec<Mark> {
        let curves = Curves::new(Arc::clone(&self.data));
        let frame = Frame::new(&curves, &self.view, self.surface(px_ratio));
        let style = Style { words: self.voice.words, unit: self.voice.unit, measure };
        let mut marks = scene(&curves, &frame, &self.view, &style);
        marks.extend(overlay(&curves, &frame, &self.view, Marked::default()));
        marks
    }

    fn surface(&self, px_ratio: f64) -> Surface {
        Surface { width: self.size.0, height: self.size.1, px_ratio }
    }

    /// An SVG document in the page's colours.
    pub fn svg(&self, title: &str) -> Option<String> {
        let theme = Theme::at(&document().document_element()?)?;
        let marks = self.marks(1.0, &text_width);
        Some(svg::document(&marks, self.surface(1.0), &theme.palette, title))
    }

    /// A PNG at twice the size, handed to `then` when the browser has made it.
    pub fn png(&self, then: impl FnOnce(Blob) + 'static) -> Option<()> {
        const PX_RATIO: f64 = 2.0;
        let theme = Theme::at(&document().document_element()?)?;
        let canvas: HtmlCanvasElement =
            document().create_element("canvas").ok()?.dyn_into().ok()?;
        let mut painter = Painter::new(canvas.clone())?;
        painter.prepare(self.surface(PX_RATIO), &theme);
        let (w, h) = self.size;
        let paper = Vec::from([Op::Rect(Area { x: 0.0, y: 0.0, w, h })]);
        let mut marks = Vec::from([Mark::Fill { path: paper, ink: Ink::Paper, alpha: 1.0 }]);
        let measure = |text: &str, size: f64, bold: bool| painter.measure(text, size, bold);
        marks.extend(self.marks(PX_RATIO, &measure));
        painter.paint(&marks);
        let done = Closure::once_into_js(move |blob: Option<Blob>| {
            if let Some(blob) = blob {
                then(blob);
            }
        });
        canvas.to_blob(done.unchecked_ref()).ok()
    }
}
