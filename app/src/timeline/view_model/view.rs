//! What the person chose to see: window, axis, cursor, pins. It travels in the URL.
//!
//! ```text
//! position   −1      0       1       2              n−1      n
//!             │ base  │ after │ after │      …      │ after  │
//!             │       │ ev. 0 │ ev. 1 │             │ ev. n−1│
//!           start of the step                          end of the step
//! ```
//!
//! A *position* is a fractional event index: event `i` happens at `i`, and what it leaves holds
//! until `i + 1`. Windows are kept in positions on both axes, so that switching the axis, or a new
//! result of the same program, keeps the same tensors in sight.

use std::fmt::Write as _;

/// What the x axis counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Axis {
    /// Time of the host since the step's start.
    #[default]
    Time,
    /// Events, each as wide as the next.
    Order,
}

/// What the y axis spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum YScale {
    /// From zero to the capacity where a good part of it is filled, else to what is reserved.
    #[default]
    Auto,
    /// From zero to the capacity.
    Capacity,
    /// From zero to the most live bytes in the window.
    Live,
    /// From the fewest to the most live bytes in the window.
    Window,
}

impl YScale {
    /// The next one, for the `Y` key.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Auto => Self::Capacity,
            Self::Capacity => Self::Live,
            Self::Live => Self::Window,
            Self::Window => Self::Auto,
        }
    }
}

/// What the person chose to see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// Position at the left edge; −1 is the step's start.
    pub start_event: f64,
    /// Position at the right edge; infinity is the step's end.
    pub end_event: f64,
    /// What the x axis counts.
    pub axis: Axis,
    /// What the y axis spans.
    pub y_scale: YScale,
    /// Event under the cursor; the state after it is described.
    pub cursor_event: Option<u32>,
    /// Whether the cursor stays when the pointer moves.
    pub cursor_held: bool,
    /// Tensor that stays lit.
    pub pinned: Option<u32>,
    /// Selected events, first and last.
    pub selection: Option<(u32, u32)>,
}

impl Default for View {
    fn default() -> Self {
        Self {
            start_event: -1.0,
            end_event: f64::INFINITY,
            axis: Axis::default(),
            y_scale: YScale::default(),
            cursor_event: None,
            cursor_held: false,
            pinned: None,
            selection: None,
        }
    }
}

impl View {
    /// Whether the whole step is in sight.
    pub fn is_whole(&self) -> bool {
        self.start_event <= -1.0 && self.end_event.is_infinite()
    }

    /// The same choices over the whole step.
    #[must_use]
    pub fn whole(self) -> Self {
        Self { start_event: -1.0, end_event: f64::INFINITY, ..self }
    }

    /// The same choices over another window.
    #[must_use]
    pub fn with_window(self, (start_event, end_event): (f64, f64)) -> Self {
        Self { start_event, end_event, ..self }
    }

    /// The cursor on an event, kept there.
    #[must_use]
    pub fn held_at(self, event: u32) -> Self {
        Self { cursor_event: Some(event), cursor_held: true, ..self }
    }

    /// Everything that is pinned, held or selected let go.
    #[must_use]
    pub fn released(self) -> Self {
        Self { cursor_held: false, pinned: None, selection: None, ..self }
    }

    /// A short text for the URL, of unreserved characters; empty for the default view. A cursor
    /// that merely follows the pointer is not part of it.
    pub fn encode(&self) -> String {
        let mut pieces = Vec::new();
        if self.axis == Axis::Order {
            pieces.push("o".to_owned());
        }
        match self.y_scale {
            YScale::Auto => {}
            YScale::Capacity => pieces.push("yc".to_owned()),
            YScale::Live => pieces.push("yl".to_owned()),
            YScale::Window => pieces.push("yw".to_owned()),
        }
        if !self.is_whole() {
            let mut piece = format!("w{}", rounded(self.start_event));
            if self.end_event.is_finite() {
                // Writing to a string cannot fail.
                let _infallible = write!(piece, "~{}", rounded(self.end_event));
            }
            pieces.push(piece);
        }
        if let (Some(event), true) = (self.cursor_event, self.cursor_held) {
            pieces.push(format!("c{event}"));
        }
        if let Some(tensor) = self.pinned {
            pieces.push(format!("p{tensor}"));
        }
        if let Some((first, last)) = self.selection {
            pieces.push(format!("s{first}~{last}"));
        }
        pieces.join("_")
    }

    /// Reads [`View::encode`]'s text; pieces that it does not know are left out.
    pub fn decode(text: &str) -> Self {
        let mut view = Self::default();
        for piece in text.split('_') {
            match piece {
                "o" => view.axis = Axis::Order,
                "yc" => view.y_scale = YScale::Capacity,
                "yl" => view.y_scale = YScale::Live,
                "yw" => view.y_scale = YScale::Window,
                _ => view.decode_piece(piece),
            }
        }
        view
    }

    fn decode_piece(&mut self, piece: &str) {
        let Some(kind) = piece.chars().next() else { return };
        let value = &piece[kind.len_utf8()..];
        let (first, second) = value.split_once('~').unwrap_or((value, ""));
        match kind {
            'w' => {
                let start = finite(first).unwrap_or(-1.0);
                let end = finite(second).unwrap_or(f64::INFINITY);
                if start < end {
                    (self.start_event, self.end_event) = (start, end);
                }
            }
            'c' => {
                self.cursor_event = first.parse().ok();
                self.cursor_held = self.cursor_event.is_some();
            }
            'p' => self.pinned = first.parse().ok(),
            's' => self.selection = first.parse().ok().zip(second.parse().ok()),
            _ => {}
        }
    }
}

/// Four decimals: a ten-thousandth of an event.
fn rounded(position: f64) -> f64 {
    (position * 1e4).round() / 1e4
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_view_is_empty_text() {
        assert_eq!(View::default().encode(), "");
        assert_eq!(View::decode(""), View::default());
    }

    #[test]
    fn text_round_trips() {
        let view = View {
            start_event: 120.5,
            end_event: 340.25,
            axis: Axis::Order,
            y_scale: YScale::Window,
            cursor_event: Some(230),
            cursor_held: true,
            pinned: Some(17),
            selection: Some((200, 210)),
        };
        assert_eq!(view.encode(), "o_yw_w120.5~340.25_c230_p17_s200~210");
        assert_eq!(View::decode(&view.encode()), view);
        let open = View { start_event: 7.0, ..View::default() };
        assert_eq!(View::decode(&open.encode()), open);
    }

    #[test]
    fn a_cursor_that_follows_the_pointer_stays_out_of_the_url() {
        let view = View { cursor_event: Some(3), ..View::default() };
        assert_eq!(view.encode(), "");
    }

    #[test]
    fn nonsense_is_ignored() {
        for text in ["w9~3", "wNaN~2", "cx", "zz", "é", "_", "s1", "winf~inf"] {
            let view = View::decode(text);
            assert!(view.start_event < view.end_event, "{text}");
            assert_eq!(view.cursor_event, None, "{text}");
            assert_eq!(view.selection, None, "{text}");
        }
    }
}
