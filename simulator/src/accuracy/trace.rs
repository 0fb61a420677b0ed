//! One step as a curve of live requested bytes: the common form of a capture and a prediction.
//!
//! Both curves start at the allocator's counter (whole blocks: what a large block keeps beyond its
//! request counts) and go on with requested bytes, as `peak.traced_step_allocated` does.

use core::ops::Range;

use crate::wire::capture::{Action, CaseCapture};
use crate::wire::timeline::{PhaseKind, Tensors, Timeline};

/// Requests of this size and more are compared one by one.
pub const LARGE: u64 = 1 << 20;

/// A part of the step that both sides can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Forward pass and loss.
    Forward,
    /// Backward pass.
    Backward,
    /// Gradient clipping.
    Clip,
    /// The optimizer's update.
    Optimizer,
    /// `zero_grad`.
    ZeroGrad,
    /// The prompt of an inference.
    Prefill,
    /// What comes after the last mark, or the whole of a capture without marks.
    Rest,
}

impl Part {
    /// All parts, each at the place of its number.
    pub const ALL: [Self; 7] = [
        Self::Forward,
        Self::Backward,
        Self::Clip,
        Self::Optimizer,
        Self::ZeroGrad,
        Self::Prefill,
        Self::Rest,
    ];

    /// The word shown to people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Clip => "clip",
            Self::Optimizer => "optimizer",
            Self::ZeroGrad => "zero_grad",
            Self::Prefill => "prefill",
            Self::Rest => "rest",
        }
    }

    /// The part that a capture's mark ends; nothing for `start` and unknown marks.
    fn of_mark(phase: &str) -> Option<Self> {
        match phase {
            "fwd" => Some(Self::Forward),
            "bwd" => Some(Self::Backward),
            "clip" => Some(Self::Clip),
            "opt" => Some(Self::Optimizer),
            "zero" => Some(Self::ZeroGrad),
            "prefill_end" => Some(Self::Prefill),
            _ => None,
        }
    }

    const fn of_phase(kind: PhaseKind) -> Self {
        match kind {
            PhaseKind::Build => Self::Rest,
            PhaseKind::Forward | PhaseKind::Loss => Self::Forward,
            PhaseKind::Backward => Self::Backward,
            PhaseKind::Clip => Self::Clip,
            PhaseKind::Optimizer => Self::Optimizer,
            PhaseKind::ZeroGrad => Self::ZeroGrad,
        }
    }
}

/// A stretch of events that belongs to one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which part.
    pub part: Part,
    /// Its events.
    pub events: Range<usize>,
}

/// One allocation or free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Requested bytes.
    pub bytes: u64,
    /// Whether it allocates.
    pub is_alloc: bool,
    /// Host time, ns since the step's start.
    pub time_ns: u64,
    /// The tensor: a capture's allocation id, or a timeline's tensor; nothing when unknown.
    pub tensor: Option<usize>,
}

/// One step's requests, and what is live after each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Allocations and frees in the host's order.
    pub requests: Vec<Request>,
    /// Live bytes before the first event and after each: one longer than `requests`.
    pub live: Vec<u64>,
    /// Parts in order; together they cover all events.
    pub spans: Vec<Span>,
}

impl Trace {
    /// A capture's traced step.
    pub fn of_capture(capture: &CaseCapture) -> Self {
        let mut requests = Vec::with_capacity(capture.events.len());
        let mut spans = Spans::default();
        let mut marks =
            capture.marks.iter().filter_map(|mark| Some((Part::of_mark(&mark.phase)?, mark.t_us?)));
        let mut mark = marks.next();
        for event in &capture.events {
            if !matches!(event.action, Action::Alloc | Action::Free) {
                continue;
            }
            while let Some((part, end_us)) = mark
                && end_us < event.t_us
            {
                spans.close(part, requests.len());
                mark = marks.next();
            }
            requests.push(Request {
                bytes: event.bytes,
                is_alloc: event.action == Action::Alloc,
                time_ns: event.t_us * 1000,
                tensor: usize::try_from(event.id).ok(),
            });
        }
        for (part, _) in mark.into_iter().chain(marks) {
            spans.close(part, requests.len());
        }
        if spans.next < requests.len() {
            spans.close(Part::Rest, requests.len());
        }
        Self { live: curve(capture.base_alloc, &requests), requests, spans: spans.list }
    }

    /// A predicted step.
    pub fn of_timeline(timeline: &Timeline) -> Self {
        let events = &timeline.events;
        let requests: Vec<Request> = (0..events.len())
            .map(|event| {
                let tensor = events.tensor[event] as usize;
                Request {
                    bytes: timeline.tensors.bytes[tensor],
                    is_alloc: events.is_alloc[event] == 1,
                    time_ns: events.time_ns[event],
                    tensor: Some(tensor),
                }
            })
            .collect();
        let mut spans = Spans::default();
        let mut phases = timeline.phases.iter().peekable();
        while let Some(phase) = phases.next() {
            let part = Part::of_phase(phase.kind);
            let goes_on = phases.peek().is_some_and(|next| {
                Part::of_phase(next.kind) == part && next.micro_batch == phase.micro_batch
            });
            if !goes_on {
                spans.close(part, phase.end_event as usize);
            }
        }
        if spans.next < requests.len() {
            spans.close(Part::Rest, requests.len());
        }
        Self { live: curve(base_of(timeline), &requests), requests, spans: spans.list }
    }

    /// The highest live bytes, and the number of events after which they stand first.
    pub fn peak(&self) -> (u64, usize) {
        let peak = self.live.iter().copied().max().unwrap_or(0);
        (peak, self.live.iter().position(|live| *live == peak).unwrap_or(0))
    }

    /// Positions of allocations of at least `smallest` bytes.
    pub fn large(&self, smallest: u64) -> Vec<usize> {
        let is_large = |request: &Request| request.is_alloc && smallest <= request.bytes;
        (0..self.requests.len()).filter(|event| is_large(&self.requests[*event])).collect()
    }

    /// The part in which an event lies.
    pub fn part(&self, event: usize) -> Part {
        let span = self.spans.iter().find(|span| span.events.contains(&event));
        span.map_or(Part::Rest, |span| span.part)
    }
}

/// Spans under construction: each starts where the last one ended.
#[derive(Default)]
struct Spans {
    next: usize,
    list: Vec<Span>,
}

impl Spans {
    fn close(&mut self, part: Part, end: usize) {
        self.list.push(Span { part, events: self.next..end });
        self.next = end;
    }
}

fn curve(base: u64, requests: &[Request]) -> Vec<u64> {
    let mut live = base;
    let mut curve = Vec::with_capacity(requests.len() + 1);
    curve.push(live);
    for request in requests {
        live = if request.is_alloc {
            live + request.bytes
        } else {
            live.saturating_sub(request.bytes)
        };
        curve.push(live);
    }
    curve
}

/// The allocator's counter when the step starts.
///
/// The timeline has it after each event: the first event's block is taken back out. The block's
/// size shows where it is freed; a tensor that outlives the step is taken as rounded to 512 B.
fn base_of(timeline: &Timeline) -> u64 {
    let (events, tensors) = (&timeline.events, &timeline.tensors);
    let Some(&after) = events.allocated.first() else { return timeline.base_bytes };
    let tensor = events.tensor[0] as usize;
    let rounded = tensors.bytes[tensor].div_ceil(512).max(1) * 512;
    let base = if events.is_alloc[0] == 1 {
        after.saturating_sub(block_of(tensors, tensor, &events.allocated).unwrap_or(rounded))
    } else {
        after + rounded
    };
    base.max(timeline.base_bytes)
}

/// The size of a tensor's block, seen in the counter at its free.
fn block_of(tensors: &Tensors, tensor: usize, allocated: &[u64]) -> Option<u64> {
    let freed = tensors.freed[tensor] as usize;
    let (before, after) = (allocated.get(freed.checked_sub(1)?)?, allocated.get(freed)?);
    before.checked_sub(*after)
}
