//! Device work over time, prepared so that a pixel is a difference of two sums.
//!
//! Kernels of the stream follow one another; where several share a pixel only the busy share of
//! it can be shown. Blocks of 64 kernels know their longest, so that those wide enough to be
//! drawn are found without looking at each.

use std::ops::Range;

use simulator::wire::timeline::Work;

use super::num::{from_u64, to_u64};

const STRIDE: usize = 64;

/// Sums over the work of one stream.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    /// Busy ns before each kernel, and in all of them as the last element.
    busy_before: Vec<u64>,
    /// Longest kernel of each block of 64, ns.
    longest: Vec<u64>,
}

impl Lanes {
    /// Prepares the work of a step.
    pub fn new(work: &Work) -> Self {
        let lengths = || work.end_ns.iter().zip(&work.start_ns).map(|(end, start)| end - start);
        let mut busy = 0;
        let mut busy_before = Vec::with_capacity(work.start_ns.len() + 1);
        busy_before.push(0);
        busy_before.extend(lengths().map(|length| {
            busy += length;
            busy
        }));
        let lengths: Vec<u64> = lengths().collect();
        let longest = lengths.chunks(STRIDE).filter_map(|block| block.iter().max().copied());
        Self { longest: longest.collect(), busy_before }
    }

    /// Busy ns from the step's start until a time.
    fn busy_until(&self, work: &Work, time: f64) -> f64 {
        let started = work.start_ns.partition_point(|&start| from_u64(start) < time);
        let Some(last) = started.checked_sub(1) else { return 0.0 };
        let within =
            (time.min(from_u64(work.end_ns[last])) - from_u64(work.start_ns[last])).max(0.0);
        from_u64(self.busy_before[last]) + within
    }

    /// Share of a stretch of time in which the device is busy.
    pub fn busy_share(&self, work: &Work, (from, to): (f64, f64)) -> f64 {
        let busy = self.busy_until(work, to) - self.busy_until(work, from);
        (busy / (to - from).max(1.0)).clamp(0.0, 1.0)
    }

    /// Kernels that touch a stretch of time and last at least so long, in order.
    pub fn at_least(&self, work: &Work, (from, to): (f64, f64), ns: f64) -> Vec<usize> {
        let Range { start, end } = touching(work, (from, to));
        let mut found = Vec::new();
        let mut index = start;
        while index < end {
            let block_end = (index / STRIDE + 1) * STRIDE;
            if from_u64(self.longest[index / STRIDE]) >= ns {
                let long =
                    |&index: &usize| from_u64(work.end_ns[index] - work.start_ns[index]) >= ns;
                found.extend((index..block_end.min(end)).filter(long));
            }
            index = block_end;
        }
        found
    }
}

/// Kernels that touch a stretch of time.
pub fn touching(work: &Work, (from, to): (f64, f64)) -> Range<usize> {
    let first = work.end_ns.partition_point(|&end| end < to_u64(from));
    let last = work.start_ns.partition_point(|&start| start <= to_u64(to));
    first..last.max(first)
}

/// How many kernels the host issues in a stretch of time.
pub fn issued(work: &Work, (from, to): (f64, f64)) -> usize {
    let before = |time: f64| work.issued_ns.partition_point(|&ns| from_u64(ns) < time);
    before(to) - before(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels of 10, 20, 30, … ns with gaps of 5.
    fn work(n: u64) -> Work {
        let mut work = Work::default();
        let mut now = 100;
        for index in 0..n {
            work.issued_ns.push(index * 7);
            work.start_ns.push(now);
            now += (index % 50 + 1) * 10;
            work.end_ns.push(now);
            now += 5;
        }
        work
    }

    #[test]
    fn busy_shares_equal_a_full_pass() {
        let work = work(300);
        let lanes = Lanes::new(&work);
        for (from, to) in [(0.0, 90.0), (0.0, 1000.0), (105.0, 108.0), (777.0, 5000.0)] {
            let spans = work.start_ns.iter().zip(&work.end_ns);
            let overlap = |(&start, &end): (&u64, &u64)| {
                (from_u64(end).min(to) - from_u64(start).max(from)).max(0.0)
            };
            let busy: f64 = spans.map(overlap).sum();
            let share = lanes.busy_share(&work, (from, to));
            assert!((share - busy / (to - from)).abs() < 1e-9, "{from} to {to}");
        }
    }

    #[test]
    fn long_kernels_are_found_in_every_block() {
        let work = work(300);
        let lanes = Lanes::new(&work);
        for (from, to, ns) in [(0.0, 1e9, 400.0), (3000.0, 20_000.0, 490.0), (0.0, 1e9, 0.0)] {
            let found = lanes.at_least(&work, (from, to), ns);
            let expected: Vec<usize> = touching(&work, (from, to))
                .filter(|&index| from_u64(work.end_ns[index] - work.start_ns[index]) >= ns)
                .collect();
            assert_eq!(found, expected);
        }
        assert_eq!(issued(&work, (0.0, 70.0)), 10);
    }
}
