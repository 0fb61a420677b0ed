//! A pipeline stage's step, cut into the slots of its schedule.

use crate::megatron::{Job, Order, Stage};
use crate::program::Run;
use crate::scenario::ValidScenario;
use crate::tape::{Request, Slot, SlotKind};

use super::fold::{Visit, visits};
use super::swell::Swell;

/// Layers of a chunk that are run where another chunk's stand for those between: first and last.
pub(super) const ENDS_RUN: u64 = 2;
/// Layers of a chunk that are run where its own second one stands for those between.
pub(super) const INNER_RUN: u64 = 3;

/// A step's slots in the order in which they were run.
#[derive(Debug)]
pub(super) struct Step(pub(super) Vec<Stretch>);

/// One slot of a schedule; none is what comes before the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) slot: Option<Slot>,
    pub(super) swell: Swell,
}

/// When that was made which a run leaves behind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    InThisStep,
    Before,
}

impl Stretch {
    /// Reads the visits of one slot.
    fn of(run: &Run, visits: &[(Option<Slot>, Visit)], between: Between<'_>, made: Made) -> Self {
        let slot = visits.first().and_then(|(slot, _)| *slot);
        let mut swell = Swell::NONE;
        let mut filled = false;
        for (_, visit) in visits {
            let own = match made {
                Made::InThisStep => of_visit(run, visit),
                Made::Before => of_visit_without_remains(run, visit),
            };
            match (between, slot) {
                (Between::Second(layers), Some(slot)) if place(visit, INNER_RUN) == Some(1) => {
                    swell = swell.then(&own.repeat(layers[slot.chunk as usize] - ENDS_RUN));
                    continue;
                }
                (Between::Like(interior, layers), Some(slot)) if !filled => {
                    // Before the last layer's forward, and before the first layer's backward.
                    let next = match (slot.kind, place(visit, ENDS_RUN)) {
                        (SlotKind::Forward, Some(1)) => Some(&interior.forward),
                        (SlotKind::Backward, Some(0)) => Some(&interior.backward),
                        _ => None,
                    };
                    if let Some(layer) = next {
                        swell = swell.then(&layer.repeat(layers[slot.chunk as usize] - ENDS_RUN));
                        filled = true;
                    }
                }
                _ => {}
            }
            swell = swell.then(&own);
        }
        Self { slot, swell }
    }

    /// Whether it is a slot of this kind.
    pub(super) fn is(&self, kind: SlotKind) -> bool {
        self.slot.is_some_and(|slot| slot.kind == kind)
    }

    /// What a process does once: the beginning, each chunk's first forward, the first backward.
    fn once(&self) -> Option<(Option<SlotKind>, u32)> {
        match self.slot {
            None => Some((None, 0)),
            Some(Slot { kind: SlotKind::Forward, chunk, .. }) => {
                Some((Some(SlotKind::Forward), chunk))
            }
            Some(Slot { kind: SlotKind::Backward, .. }) => Some((Some(SlotKind::Backward), 0)),
            Some(_) => None,
        }
    }
}

/// The layers of a chunk that were not run, between those that were.
#[derive(Clone, Copy)]
pub(super) enum Between<'a> {
    /// All were run.
    Nothing,
    /// [`INNER_RUN`] were run, of which the second stands for as many as the chunk really has.
    Second(&'a [u64]),
    /// [`ENDS_RUN`] were run, and between them the chunk really has so many like this one.
    Like(&'a Interior, &'a [u64]),
}

/// A layer between others, forward and backward.
pub(super) struct Interior {
    forward: Swell,
    backward: Swell,
}

impl Interior {
    /// The second of three layers, in a stage that has neither embedding nor loss.
    pub(super) fn of(scenario: &ValidScenario) -> Self {
        let stage = Stage { first: false, last: false, warmup: 1, steady: 0 };
        let (mut job, _) = Job::cut(scenario, INNER_RUN, Order::Plain(stage));
        let run = job.run_schedule();
        let [mut forward, mut backward] = [Swell::NONE; 2];
        for (slot, visit) in slotted(&run) {
            let swell = match slot.map(|slot| slot.kind) {
                Some(SlotKind::Forward) => &mut forward,
                Some(SlotKind::Backward) => &mut backward,
                _ => continue,
            };
            if place(&visit, INNER_RUN) == Some(1) {
                *swell = swell.then(&of_visit(&run, &visit));
            }
        }
        Self { forward, backward }
    }
}

impl Step {
    /// Reads a run.
    pub(super) fn of(run: &Run, between: Between<'_>) -> Self {
        let stretches = by_slot(&slotted(run))
            .map(|visits| Stretch::of(run, visits, between, Made::InThisStep))
            .collect();
        Self(stretches)
    }

    /// Reads a run and makes the next step of it, of which the first forward is known.
    pub(super) fn both(run: &Run, first_forward: &Run, between: Between<'_>) -> [Self; 2] {
        let first = Self::of(run, between);
        let mut next = first.beginning_as(&Self::of(first_forward, between));
        let backward = |stretch: &Stretch| stretch.is(SlotKind::Backward);
        if let Some(place) = next.0.iter().position(backward)
            && let Some(visits) = by_slot(&slotted(run)).nth(place)
        {
            next.0[place] = Stretch::of(run, visits, between, Made::Before);
        }
        [first, next]
    }

    /// The same with what a process does once taken from another step.
    pub(super) fn beginning_as(&self, other: &Self) -> Self {
        let mut stretches = self.0.clone();
        let mut seen = Vec::new();
        for stretch in &other.0 {
            let Some(once) = stretch.once().filter(|once| !seen.contains(once)) else { continue };
            seen.push(once);
            if let Some(to) = stretches.iter_mut().find(|one| one.once() == Some(once)) {
                to.swell = stretch.swell;
            }
        }
        Self(stretches)
    }

    /// Clipping and optimizer, before the step's data go.
    pub(super) fn update_with(&mut self, update: &Swell) {
        if let Some(end) = self.0.iter_mut().find(|stretch| stretch.is(SlotKind::End)) {
            end.swell = update.then(&end.swell);
        }
    }
}

/// Requests of a whole run.
pub(super) fn all(run: &Run) -> Swell {
    visits(&run.record).fold(Swell::NONE, |swell, visit| swell.then(&of_visit(run, &visit)))
}

fn of_visit(run: &Run, visit: &Visit) -> Swell {
    let phase = (visit.phase.kind, visit.phase.micro_batch);
    Swell::of(&run.record, &run.record.requests[visit.start..visit.end], phase)
}

/// The same without what stays when the run has ended: the next step finds it there.
fn of_visit_without_remains(run: &Run, visit: &Visit) -> Swell {
    let record = &run.record;
    let goes = |request: &&Request| record.storages[request.storage().index()].references == 0;
    let requests: Vec<Request> =
        record.requests[visit.start..visit.end].iter().filter(goes).copied().collect();
    Swell::of(record, &requests, (visit.phase.kind, visit.phase.micro_batch))
}

/// Which of so many layers a chunk the visit is in.
fn place(visit: &Visit, layers: u64) -> Option<u64> {
    visit.layer.map(|layer| u64::from(layer) % layers)
}

/// The visits of each slot.
fn by_slot(visits: &[(Option<Slot>, Visit)]) -> impl Iterator<Item = &[(Option<Slot>, Visit)]> {
    visits.chunk_by(|(one, _), (other, _)| one == other)
}

/// A run's visits, each within one slot: what follows a slot's beginning is of no layer until one is
/// entered.
fn slotted(run: &Run) -> Vec<(Option<Slot>, Visit)> {
    let mut parts = Vec::new();
    let mut slots = run.record.slots.iter().copied().peekable();
    let mut slot = None;
    for mut visit in visits(&run.record) {
        while let Some(next) = slots.next_if(|next| (next.request as usize) < visit.end) {
            let start = next.request as usize;
            parts.push((slot, Visit { end: start, ..visit }));
            visit = Visit { start, layer: None, ..visit };
            slot = Some(next);
        }
        parts.push((slot, visit));
    }
    parts
}
