//! The chart as an SVG document: the same marks as on the canvas, for files and reports.

use std::fmt::Write as _;

use super::palette::Palette;
use super::view_model::layout::Surface;
use super::view_model::num::{from_u64, to_u64};
use super::view_model::scene::{Anchor, Ink, Mark, Op};

/// Fonts of the page; a viewer without them takes its own sans serif.
const FONTS: &str = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', sans-serif";

/// Writes a whole document on paper.
pub fn document(marks: &[Mark], surface: Surface, palette: &Palette, title: &str) -> String {
    let mut writer = Writer { out: String::with_capacity(64 << 10), palette, n_clips: 0 };
    writer.open(surface, title);
    for mark in marks {
        writer.mark(mark);
    }
    writer.out.push_str("</svg>\n");
    writer.out
}

struct Writer<'a> {
    out: String,
    palette: &'a Palette,
    n_clips: u32,
}

impl Writer<'_> {
    /// Writing to a string cannot fail.
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        let _infallible = self.out.write_fmt(text);
    }

    fn open(&mut self, surface: Surface, title: &str) {
        let (w, h) = (surface.width, surface.height);
        let paper = self.palette.colour(Ink::Paper);
        self.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" \
             viewBox=\"0 0 {w} {h}\" font-family=\"{FONTS}\" role=\"img\">\n<title>{}</title>\n\
             <rect width=\"{w}\" height=\"{h}\" fill=\"{paper}\"/>\n<defs>\n",
            escaped(title)
        ));
        for ink in [Ink::Hatch, Ink::Paper, Ink::Capacity] {
            let colour = self.palette.colour(ink);
            self.put(format_args!(
                "<pattern id=\"hatch-{}\" width=\"6\" height=\"6\" \
                 patternUnits=\"userSpaceOnUse\"><path d=\"M-1 7L7 -1M-1 1L1 -1M5 7L7 5\" \
                 stroke=\"{colour}\" stroke-width=\"1\"/></pattern>\n",
                hatch_name(ink)
            ));
        }
        self.out.push_str("</defs>\n");
    }

    fn mark(&mut self, mark: &Mark) {
        match mark {
            Mark::Fill { path, ink, alpha } if !path.is_empty() => {
                let colour = self.palette.colour(*ink);
                self.path(path);
                self.put(format_args!(" fill=\"{colour}\"{}/>\n", opacity(*alpha)));
            }
            Mark::Hatch { path, ink, alpha } if !path.is_empty() => {
                self.path(path);
                let name = hatch_name(*ink);
                self.put(format_args!(" fill=\"url(#hatch-{name})\"{}/>\n", opacity(*alpha)));
            }
            Mark::Stroke { path, ink, alpha, width, dashed } if !path.is_empty() => {
                let colour = self.palette.colour(*ink);
                self.path(path);
                let dash = if *dashed { " stroke-dasharray=\"3 3\"" } else { "" };
                self.put(format_args!(
                    " fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dash}{}/>\n",
                    opacity(*alpha)
                ));
            }
            Mark::Text { at, text, ink, size, anchor, bold } => {
                let colour = self.palette.colour(*ink);
                let anchor = match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                let weight = if *bold { " font-weight=\"600\"" } else { "" };
                let (x, y) = (Px(at.0), Px(at.1 + size * 0.36));
                self.put(format_args!(
                    "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" text-anchor=\"{anchor}\"\
                     {weight} fill=\"{colour}\">{}</text>\n",
                    escaped(text)
                ));
            }
            Mark::Clip(area) => {
                let id = self.n_clips;
                self.n_clips += 1;
                let (x, y, w, h) = (Px(area.x), Px(area.y), Px(area.w), Px(area.h));
                self.put(format_args!(
                    "<clipPath id=\"clip-{id}\"><rect x=\"{x}\" y=\"{y}\" width=\"{w}\" \
                     height=\"{h}\"/></clipPath><g clip-path=\"url(#clip-{id})\">\n"
                ));
            }
            Mark::Shift(by) => {
                self.put(format_args!("<g transform=\"translate(0 {})\">\n", Px(*by)));
            }
            Mark::Unclip | Mark::Unshift => self.out.push_str("</g>\n"),
            Mark::Fill { .. } | Mark::Hatch { .. } | Mark::Stroke { .. } => {}
        }
    }

    fn path(&mut self, path: &[Op]) {
        self.out.push_str("<path d=\"");
        for op in path {
            match *op {
                Op::Move(x, y) => self.put(format_args!("M{} {}", Px(x), Px(y))),
                Op::Line(x, y) => self.put(format_args!("L{} {}", Px(x), Px(y))),
                Op::Close => self.out.push('Z'),
                Op::Rect(area) => self.put(format_args!(
                    "M{} {}h{}v{}h{}Z",
                    Px(area.x),
                    Px(area.y),
                    Px(area.w),
                    Px(area.h),
                    Px(-area.w)
                )),
            }
        }
        self.out.push('"');
    }
}

fn hatch_name(ink: Ink) -> &'static str {
    match ink {
        Ink::Capacity => "capacity",
        Ink::Paper => "paper",
        _ => "slack",
    }
}

fn opacity(alpha: f64) -> String {
    if alpha < 1.0 { format!(" opacity=\"{alpha}\"") } else { String::new() }
}

/// Coordinates to a hundredth of a pixel, without trailing zeros.
struct Px(f64);

impl std::fmt::Display for Px {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hundredths = to_u64((self.0.abs() * 100.0).round());
        if self.0 < 0.0 && hundredths > 0 {
            f.write_str("-")?;
        }
        if hundredths.is_multiple_of(100) {
            write!(f, "{}", hundredths / 100)
        } else if hundredths.is_multiple_of(10) {
            write!(f, "{:.1}", from_u64(hundredths) / 100.0)
        } else {
            write!(f, "{:.2}", from_u64(hundredths) / 100.0)
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::view_model::layout::Area;

    #[test]
    fn marks_become_elements() {
        let surface = Surface { width: 100.0, height: 50.0, px_ratio: 1.0 };
        let marks = [
            Mark::Clip(Area { x: 0.0, y: 0.0, w: 10.0, h: 10.0 }),
            Mark::Fill {
                path: Vec::from([Op::Rect(Area { x: 1.0, y: 2.5, w: 3.0, h: 4.25 })]),
                ink: Ink::Text,
                alpha: 0.5,
            },
            Mark::Unclip,
            Mark::Text {
                at: (5.0, 5.0),
                text: "a<b".to_owned(),
                ink: Ink::Text,
                size: 10.0,
                anchor: Anchor::End,
                bold: false,
            },
        ];
        let svg = document(&marks, surface, &Palette::default(), "A & B");
        assert!(svg.contains("<title>A &amp; B</title>"));
        assert!(svg.contains("<path d=\"M1 2.5h3v4.25h-3Z\" fill=\"#000000\" opacity=\"0.5\"/>"));
        assert!(svg.contains(">a&lt;b</text>"));
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
    }

    #[test]
    fn coordinates_are_short() {
        let text = |value: f64| Px(value).to_string();
        assert_eq!([text(1.0), text(-2.5), text(0.126), text(-0.001)], ["1", "-2.5", "0.13", "0"]);
    }
}
