//! The tooltip beside the pointer, or beside the cursor when the keyboard lights a tensor.

use leptos::prelude::*;

use super::chart::{Chart, Pointer};
use super::swatch::swatch_class;
use super::view_model::tip::{Tip, phase_tip, tensor_tip, tip, work_tip};
use crate::erased::{memo, part};

/// The tooltip.
#[component]
pub(super) fn Tooltip(chart: Chart) -> impl IntoView {
    let shown = memo(move || content(chart));
    part(move || {
        let Some((tip, at)) = shown.get() else { return ().into_any() };
        // On the side with more room, so that it needs no measuring.
        let surface = chart.surface.get_untracked();
        let to_left = surface.width / 2.0 < at.0;
        let upwards = surface.height / 2.0 < at.1;
        let x = if to_left { surface.width - at.0 } else { at.0 } + 14.0;
        let y = if upwards { surface.height - at.1 } else { at.1 } + 12.0;
        let side = |here: bool, value: f64| {
            if here { format!("{value:.0}px") } else { "auto".to_owned() }
        };
        view! {
            <div
                class="tl-tip"
                aria-hidden="true"
                style:left=side(!to_left, x)
                style:right=side(to_left, x)
                style:top=side(!upwards, y)
                style:bottom=side(upwards, y)
            >
                <Content tip />
            </div>
        }
        .into_any()
    })
}

#[component]
fn Content(tip: Tip) -> impl IntoView {
    let rows = tip.rows.into_iter().map(|(label, value)| {
        view! {
            <dt>{label}</dt>
            <dd>{value}</dd>
        }
    });
    let rows: Vec<_> = rows.collect();
    view! {
        <p class="tl-tip-title">
            {tip.ink.map(|ink| view! { <span class=swatch_class(ink)></span> })} {tip.title}
        </p>
        <p class="tl-tip-sub">{tip.subtitle}</p>
        <dl>{rows}</dl>
    }
}

/// What to say, and beside which point.
fn content(chart: Chart) -> Option<(Tip, (f64, f64))> {
    let curves = chart.curves.get()?.0;
    let voice = chart.settings.voice();
    let pointer = chart.pointer.get().filter(|pointer| pointer.step == curves.data.id);
    if let Some(Pointer { x, y, over, work, phase, .. }) = pointer {
        let tip = match (over, work, phase) {
            (Some((state, hit)), _, _) => tip(&curves, state, hit, voice),
            (None, Some(work), _) => work_tip(&curves, work, voice)?,
            (None, None, Some(event)) => phase_tip(&curves, event, voice)?,
            (None, None, None) => return None,
        };
        return Some((tip, (x, y)));
    }
    let view = chart.view.get();
    let tensor = chart.lit.get().filter(|&tensor| curves.has_tensor(tensor))?;
    let event = view.cursor_event.filter(|_| view.cursor_held)?;
    let frame = chart.frame.get()?.0;
    let state = (event as usize + 1).min(curves.n_states() - 1);
    if !curves.is_live(tensor, state) {
        return None;
    }
    let x = frame.px_of_event(&curves, event)?;
    let below = super::view_model::live::bytes_below(&curves, tensor, state);
    let y = frame.y.px_of(below + curves.bytes(tensor) / 2);
    let y = y.clamp(frame.layout.plot.y, frame.layout.plot.bottom());
    Some((tensor_tip(&curves, tensor, voice), (x, y)))
}
