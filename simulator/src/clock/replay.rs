//! One stream: the host issues in order, the device runs in order, whoever is later waits.

use super::Clock;
use super::host::LATENCY_NS;
use super::work::{Issue, Work, WorkClass};

/// Kernel launches that the driver queues before a launch blocks the host.
///
/// About a thousand on one stream: a user's measurement, stackoverflow.com/q/53970187 (2018-12), and
/// the power of two that fits it; the limit is not in the programming guide.
const QUEUE: usize = 1024;

/// Slots of the memory for device times; shapes repeat over layers.
const MEMO_SLOTS: usize = 512;

/// Device times already computed. A plain direct-mapped table, so results depend on nothing else.
#[derive(Clone, Debug)]
struct Memo {
    slots: Vec<Option<(Work, u64)>>,
}

impl Default for Memo {
    fn default() -> Self {
        Self { slots: vec![None; MEMO_SLOTS] }
    }
}

impl Memo {
    fn device_ns(&mut self, clock: &Clock, work: &Work) -> u64 {
        // The device does not care who issues.
        let key = Work { issue: Issue::Inner, ..*work };
        let slot = &mut self.slots[usize::from((key.fingerprint() >> 48) as u16) % MEMO_SLOTS];
        match slot {
            Some((known, ns)) if *known == key => *ns,
            _ => {
                let ns = clock.device(&key).get();
                *slot = Some((key, ns));
                ns
            }
        }
    }
}

/// When every operation is issued, starts and ends, as columns in the order of the works.
///
/// Keep one and replay into it again: its buffers and device times are reused.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// When the host starts to issue it, ns since the step's start.
    pub issued_ns: Vec<u64>,
    /// When the device starts it, ns; the time of issue for host-only work.
    pub start_ns: Vec<u64>,
    /// When the device has finished it, ns; the time of issue for host-only work.
    pub end_ns: Vec<u64>,
    /// What the host spends issuing, waiting excluded, ns.
    pub host_ns: u64,
    /// What the device spends running, ns.
    pub busy_ns: u64,
    /// What the device spends waiting for work between its start and its end, ns.
    pub idle_ns: u64,
    /// When both the host and the device have finished, ns.
    pub length_ns: u64,
    memo: Memo,
}

impl Replay {
    /// Whether the host is the limit: it takes longer to issue than the device to run.
    pub const fn is_host_bound(&self) -> bool {
        self.host_ns > self.busy_ns
    }

    /// When an event recorded after the first `works` works fires: the host has come so far and the
    /// device has done what was issued. Phases are measured between such events.
    pub fn event_ns(&self, works: usize) -> u64 {
        self.end_ns[..works].iter().copied().max().unwrap_or(0)
    }

    fn clear(&mut self, works: usize) {
        for column in [&mut self.issued_ns, &mut self.start_ns, &mut self.end_ns] {
            column.clear();
            column.reserve(works);
        }
        (self.host_ns, self.busy_ns, self.idle_ns, self.length_ns) = (0, 0, 0, 0);
    }

    /// Runs `works` in order on one stream.
    ///
    /// Issue: `hᵢ₊₁ = hᵢ + issueᵢ`, held back while 1,024 launches are pending. Start:
    /// `max(hᵢ + first launchᵢ + latency, device free)`. End: `max(start + deviceᵢ, hᵢ₊₁ + latency +
    /// deviceᵢ/kernelsᵢ)`, for an operation of several kernels cannot end before the last is launched.
    /// A synchronisation lets the host wait for the device.
    pub fn run(&mut self, clock: &Clock, works: &[Work]) {
        self.clear(works.len());
        let (mut host, mut free) = (0_u64, 0_u64);
        // End times of the launches in flight, as a ring.
        let mut pending = [0_u64; QUEUE];
        let mut launched = 0_usize;
        for work in works {
            let cost = clock.issue(work).get();
            self.host_ns += cost;
            if work.class == WorkClass::Synchronize {
                self.issued_ns.push(host);
                host = host.max(free) + cost;
                self.start_ns.push(host);
                self.end_ns.push(host);
                continue;
            }
            if work.kernels == 0 {
                self.issued_ns.push(host);
                self.start_ns.push(host);
                host += cost;
                self.end_ns.push(host);
                continue;
            }
            host = host.max(pending[launched % QUEUE]);
            let device = self.memo.device_ns(clock, work);
            let ready = host + clock.first_launch(work).get() + LATENCY_NS;
            let start = ready.max(free);
            let last_launch = host + cost + LATENCY_NS;
            let end = (start + device).max(last_launch + device / u64::from(work.kernels));
            self.issued_ns.push(host);
            self.start_ns.push(start);
            self.end_ns.push(end);
            self.idle_ns += start - free;
            self.busy_ns += device;
            host += cost;
            free = end;
            for _ in 0..work.kernels.min(64) {
                pending[launched % QUEUE] = end;
                launched += 1;
            }
        }
        self.length_ns = host.max(free);
        self.idle_ns = free - self.busy_ns.min(free);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::h200;
    use super::super::{Gemm, HostWork, Number, Pass, Tf32};
    use super::*;

    fn product(size: u32) -> Work {
        Work::matmul(Gemm::new(size, size, size), Pass::Forward, Number::Bf16, Issue::Python)
    }

    #[test]
    fn large_kernels_hide_the_host_and_small_ones_do_not() {
        let clock = Clock::nominal(&h200(), Tf32::ALL);
        let mut replay = Replay::default();
        replay.run(&clock, &vec![product(8192); 100]);
        assert!(!replay.is_host_bound());
        let first = replay.start_ns[0];
        assert_eq!(replay.length_ns, first + 100 * clock.device(&product(8192)).get());

        replay.run(&clock, &vec![product(64); 100]);
        assert!(replay.is_host_bound());
        assert!(replay.idle_ns > replay.busy_ns);
        assert!(replay.length_ns >= replay.host_ns);
    }

    #[test]
    fn a_synchronisation_stops_the_host_until_the_device_is_done() {
        let clock = Clock::nominal(&h200(), Tf32::ALL);
        let view = Work::host(HostWork::View, Issue::Python);
        let mut replay = Replay::default();
        replay.run(&clock, &[product(8192), Work::synchronize(), view]);
        assert!(replay.issued_ns[1] < replay.end_ns[0]);
        assert!(replay.issued_ns[2] >= replay.end_ns[0]);
        assert_eq!(replay.event_ns(1), replay.end_ns[0]);
        assert_eq!(replay.event_ns(3), replay.length_ns);
    }

    #[test]
    fn the_queue_holds_the_host_back() {
        let clock = Clock::nominal(&h200(), Tf32::ALL);
        let mut replay = Replay::default();
        replay.run(&clock, &vec![product(4096); 3000]);
        assert!(replay.issued_ns[2999] >= replay.end_ns[2999 - QUEUE]);
        assert!(replay.issued_ns[1000] < replay.end_ns[200]);
    }
}
