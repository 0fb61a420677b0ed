//! A stage's order of forwards and backwards, walked with the summaries of few of them.

use crate::megatron::Stage;
use crate::tape::SlotKind;

use super::slots::Step;
use super::swell::Swell;

/// A slot of a whole schedule: which of the short one's it is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    like: usize,
    micro_batch: u64,
}

/// The highest point of a step.
#[derive(Clone, Debug)]
pub(super) struct Walked {
    /// From the beginning of the process to the step's end.
    pub(super) live: Swell,
    /// Forwards whose backward has not ended at the highest point.
    pub(super) in_flight: u64,
    /// Highest bytes in each turn, or in several together.
    pub(super) course: Vec<i64>,
}

/// Points of a course: more than a small chart shows.
const POINTS: usize = 96;

/// The schedule as it was run.
pub(super) fn as_run(step: &Step) -> Vec<Turn> {
    let micro_batch = |slot: Option<crate::tape::Slot>| slot.map_or(0, |slot| slot.micro_batch);
    let turns = step.0.iter().enumerate();
    turns.map(|(like, one)| Turn { like, micro_batch: micro_batch(one.slot).into() }).collect()
}

/// The whole schedule of a stage from a short one. In a row of two the second stands for all others; in
/// a longer one the last stands for itself, and the one before it for all others.
pub(super) fn lengthened(short: Stage, whole: Stage) -> Vec<Turn> {
    let like = |i: u64, short: u64, whole: u64| match short {
        0..3 => i.min(short.saturating_sub(1)),
        _ if i + 1 == whole => short - 1,
        _ => i.min(short - 2),
    };
    let mut turns = Vec::new();
    let mut turn = |like: u64, micro_batch: u64| {
        turns.push(Turn { like: usize::try_from(like).unwrap_or(usize::MAX), micro_batch });
    };
    turn(0, 0);
    for i in 0..whole.warmup {
        turn(1 + like(i, short.warmup, whole.warmup), i);
    }
    let pairs = 1 + short.warmup + 1;
    turn(pairs - 1, 0);
    for i in 0..whole.steady {
        let forward = pairs + 3 * like(i, short.steady, whole.steady);
        turn(forward, whole.warmup + i);
        turn(forward + 1, i);
        // After the last one nothing more is received.
        let last = short.steady - 1;
        let exchange = if i + 1 == whole.steady { last } else { i.min(last.saturating_sub(1)) };
        turn(pairs + 3 * exchange + 2, 0);
    }
    let rest = pairs + 3 * short.steady;
    for i in 0..whole.warmup {
        turn(rest + like(i, short.warmup, whole.warmup), whole.steady + i);
    }
    let end = rest + short.warmup;
    turn(end, 0);
    turn(end + 1, 0);
    turns
}

/// A step after what was there before it.
pub(super) fn walk(before: Swell, step: &Step, turns: &[Turn]) -> Walked {
    let mut live = before.total();
    let mut peak = before.peak;
    let (mut in_flight, mut waiting, mut at) = (0, 0, None);
    let together = turns.len().div_ceil(POINTS).max(1);
    let mut course = Vec::with_capacity(POINTS);
    for (index, turn) in turns.iter().enumerate() {
        let stretch = &step.0[turn.like];
        in_flight += u64::from(stretch.is(SlotKind::Forward));
        let high = live + stretch.swell.peak;
        if peak < high {
            peak = high;
            (at, waiting) = (Some(index), in_flight);
        }
        match course.last_mut().filter(|_| !index.is_multiple_of(together)) {
            Some(last) => *last = high.max(*last),
            None => course.push(high),
        }
        live += stretch.swell.total();
        in_flight -= u64::from(stretch.is(SlotKind::Backward));
    }
    let mut walked = before;
    if let Some(at) = at {
        walked = sum(walked, step, &turns[..at]);
        let Turn { like, micro_batch } = turns[at];
        let micro_batch = u32::try_from(micro_batch).unwrap_or(u32::MAX);
        walked = walked.then(&step.0[like].swell.in_micro_batch(micro_batch));
        walked = sum(walked, step, &turns[at + 1..]);
    } else {
        walked = sum(walked, step, turns);
    }
    Walked { live: walked, in_flight: waiting, course }
}

/// What these turns leave behind, added; none of them is the highest.
fn sum(mut swell: Swell, step: &Step, turns: &[Turn]) -> Swell {
    let mut counts = vec![0; step.0.len()];
    for turn in turns {
        counts[turn.like] += 1;
    }
    for (stretch, count) in step.0.iter().zip(counts) {
        swell.leave(&stretch.swell, count);
    }
    swell
}
