//! What the tooltip, the read-out and the screen reader say about a point of the chart.

use simulator::wire::timeline::{NO_LAYER, Phase};

use super::band::Band;
use super::curves::Curves;
use super::live::Hit;
use super::num::from_u64;
use super::scene::Ink;
use crate::format::{Unit, count, exact, nanoseconds, percent, size};
use crate::timeline::words::{TimelineWords, fill};

/// Language and unit of what is said.
#[derive(Clone, Copy, Debug)]
pub struct Voice<'a> {
    /// Texts.
    pub words: &'a TimelineWords,
    /// GiB or GB.
    pub unit: Unit,
}

/// A tooltip.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tip {
    /// Colour that it belongs to.
    pub ink: Option<Ink>,
    /// First line.
    pub title: String,
    /// Second line, smaller.
    pub subtitle: String,
    /// Label and value.
    pub rows: Vec<(&'static str, String)>,
}

/// The phase that an event belongs to.
pub fn phase_of(curves: &Curves, event: u32) -> Option<&Phase> {
    let phases = &curves.timeline().phases;
    phases.iter().rfind(|phase| phase.first_event <= event).or(phases.first())
}

/// The phase's name with its micro-batch where there are several.
pub fn phase_name(curves: &Curves, phase: &Phase, words: &TimelineWords) -> String {
    let phases = &curves.timeline().phases;
    let repeats = phases.iter().any(|other| other.kind == phase.kind && other.micro_batch > 0);
    let name = words.phase(phase.kind);
    if repeats {
        let number = (phase.micro_batch + 1).to_string();
        format!("{name}, {}", fill(words.micro_batch, &[&number]))
    } else {
        name.to_owned()
    }
}

fn label(curves: &Curves, id: u32) -> &str {
    curves.timeline().labels.get(id as usize).map_or("", String::as_str)
}

/// Name of a tensor.
pub fn tensor_name(curves: &Curves, tensor: u32) -> &str {
    label(curves, curves.timeline().tensors.name[tensor as usize])
}

/// Name and size of a tensor.
pub fn tensor_line(curves: &Curves, tensor: u32, voice: Voice<'_>) -> String {
    let bytes = size(curves.bytes(tensor), voice.unit);
    format!("{} · {bytes}", tensor_name(curves, tensor))
}

/// Block, and layer where it is in one.
fn place(curves: &Curves, block: u32, layer: u32, words: &TimelineWords) -> String {
    let block = label(curves, block);
    if layer == NO_LAYER {
        return block.to_owned();
    }
    let layer = fill(words.layer, &[&layer.to_string()]);
    if block.is_empty() { layer } else { format!("{block} · {layer}") }
}

/// `event 1,234 · Backward · 56.1 ms`, or that it lies outside the step.
fn moment(curves: &Curves, state: usize, outside: &str, voice: Voice<'_>) -> String {
    if state == 0 || curves.n_states() <= state {
        return outside.to_owned();
    }
    let event = super::num::to_u32(state - 1);
    let number = fill(voice.words.event, &[&count(u64::from(event))]);
    let phase = phase_of(curves, event).map(|phase| voice.words.phase(phase.kind));
    let time = nanoseconds(curves.edge_ns(state));
    format!("{number} · {} · {time}", phase.unwrap_or_default())
}

/// About a tensor.
pub fn tensor_tip(curves: &Curves, tensor: u32, voice: Voice<'_>) -> Tip {
    let words = voice.words;
    let tensors = &curves.timeline().tensors;
    let index = tensor as usize;
    let bytes = curves.bytes(tensor);
    let band = curves.band(tensor);
    let (born, freed) = curves.lifetime(tensor);
    let mut rows = Vec::from([
        (words.size, format!("{} · {}", size(bytes, voice.unit), exact(bytes))),
        (words.born, moment(curves, born, words.before_step, voice)),
        (words.dies, moment(curves, freed, words.after_step, voice)),
    ]);
    let peak_state = (curves.data.peak_event as usize + 1).min(curves.n_states() - 1);
    let at_peak = if curves.is_live(tensor, peak_state) {
        percent(from_u64(bytes) / from_u64(curves.live(peak_state).max(1)))
    } else {
        words.not_at_peak.to_owned()
    };
    rows.push((words.share_of_peak, at_peak));
    let place = place(curves, tensors.block[index], tensors.layer[index], words);
    let primitive = label(curves, tensors.primitive[index]);
    let parts = [words.band(band), primitive, &place];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    Tip {
        ink: Some(Ink::Band(band)),
        title: tensor_name(curves, tensor).to_owned(),
        subtitle: parts.join(" · "),
        rows,
    }
}

/// About whatever lies under a point at a state.
pub fn tip(curves: &Curves, state: usize, hit: Hit, voice: Voice<'_>) -> Tip {
    let words = voice.words;
    let held = |ink: Ink, title: &str, hint: &str, bytes: u64| Tip {
        ink: Some(ink),
        title: title.to_owned(),
        subtitle: hint.to_owned(),
        rows: Vec::from([(words.size, format!("{} · {}", size(bytes, voice.unit), exact(bytes)))]),
    };
    let category = |category| words.category(category);
    match hit {
        Hit::Tensor(tensor) => tensor_tip(curves, tensor, voice),
        Hit::AlreadyUsed => {
            let bytes = curves.data.already_used_bytes;
            held(Ink::OutsidePool, words.already_used, words.already_used_hint, bytes)
        }
        Hit::OutsidePool => {
            let name = category(simulator::wire::timeline::Category::OutsidePool);
            held(Ink::OutsidePool, name, words.outside_hint, curves.data.outside_pool_bytes)
        }
        Hit::Slack => {
            let name = category(simulator::wire::timeline::Category::Slack);
            let bytes = curves.reserved(state) - curves.live(state);
            held(Ink::Slack, name, words.slack_hint, bytes)
        }
        Hit::Free => {
            let used = curves.floor_bytes() + curves.reserved(state);
            let free = curves.data.capacity_bytes.saturating_sub(used);
            Tip {
                title: words.free_here.to_owned(),
                rows: Vec::from([
                    (words.live, size(curves.live(state), voice.unit)),
                    (words.reserved, size(curves.reserved(state), voice.unit)),
                    (words.free_here, size(free, voice.unit)),
                ]),
                ..Tip::default()
            }
        }
    }
}

/// About a kernel.
pub fn work_tip(curves: &Curves, work: usize, voice: Voice<'_>) -> Option<Tip> {
    let columns = &curves.timeline().work;
    let (&start, &end) = columns.start_ns.get(work).zip(columns.end_ns.get(work))?;
    let issued = *columns.issued_ns.get(work)?;
    let words = voice.words;
    let waits = fill(words.waits, &[&nanoseconds(start.saturating_sub(issued))]);
    Some(Tip {
        ink: None,
        title: label(curves, columns.primitive[work]).to_owned(),
        subtitle: place(curves, columns.block[work], columns.layer[work], words),
        rows: Vec::from([
            (words.runs, format!("{} · {}", nanoseconds(start), nanoseconds(end - start))),
            (words.issued, format!("{} · {waits}", nanoseconds(issued))),
        ]),
    })
}

/// About a phase.
pub fn phase_tip(curves: &Curves, event: u32, voice: Voice<'_>) -> Option<Tip> {
    let words = voice.words;
    let phase = phase_of(curves, event)?;
    let (first, end) = (phase.first_event as usize, phase.end_event as usize);
    if end <= first {
        return None;
    }
    let run = curves.extremes(first + 1..=end);
    let length = curves.edge_ns(end + 1) - curves.edge_ns(first + 1);
    Some(Tip {
        ink: None,
        title: phase_name(curves, phase, words),
        subtitle: words.phase_hint.to_owned(),
        rows: Vec::from([
            (words.length, nanoseconds(length)),
            (words.live_peak, size(run.high_live, voice.unit)),
            (words.reserved, size(run.high_reserved, voice.unit)),
        ]),
    })
}

/// One line about the state after an event, for the read-out and the live region.
pub fn readout(curves: &Curves, event: u32, voice: Voice<'_>) -> String {
    let words = voice.words;
    let n_events = u64::try_from(curves.n_events()).unwrap_or(u64::MAX);
    let state = (event as usize + 1).min(curves.n_states() - 1);
    let number = count(u64::from(event));
    let mut parts = Vec::from([fill(words.event_of, &[&number, &count(n_events)])]);
    if let Some(phase) = phase_of(curves, event) {
        parts.push(phase_name(curves, phase, words));
    }
    parts.push(nanoseconds(curves.edge_ns(state)));
    parts.push(format!("{} {}", words.live, size(curves.live(state), voice.unit)));
    parts.push(format!("{} {}", words.reserved, size(curves.reserved(state), voice.unit)));
    parts.join(" · ")
}

/// The same, as short as the bar needs it: the phase and what is reserved show elsewhere.
pub fn short_readout(curves: &Curves, event: u32, voice: Voice<'_>) -> String {
    let state = (event as usize + 1).min(curves.n_states() - 1);
    let number = fill(voice.words.event, &[&count(u64::from(event))]);
    let time = nanoseconds(curves.edge_ns(state));
    let live = size(curves.live(state), voice.unit);
    format!("{number} · {time} · {} {live}", voice.words.live)
}

/// Bands that occur in the step.
pub fn occurring(curves: &Curves) -> Vec<Band> {
    Band::ALL.into_iter().filter(|&band| !curves.in_band(band).is_empty()).collect()
}
