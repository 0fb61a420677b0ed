//! The pipeline: a valid scenario becomes two timelines and a report.

use crate::allocator::Settings;
use crate::clock::{Clock, Tf32};
use crate::process::Process;
use crate::program::Run;
use crate::report::{self, End, Footprint, ParameterCounts, TimeContext, Trial};
use crate::scenario::{Task, ValidScenario};
use crate::timeline::{Pool, Replayed, Timed, timeline};
use crate::units::{Bytes, MIB};
use crate::wire::report::{
    Figure, OutOfMemory, REPORT_VERSION, Report, StepKind, StepReport, TimeMode, Verdict,
};
use crate::wire::scenario::Precision;
use crate::wire::timeline::{PhaseKind, Timeline};

/// Everything the simulator says about a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// The answer.
    pub report: Report,
    /// The first step.
    pub first: Timeline,
    /// Every later step.
    pub steady: Timeline,
}

/// Which rates the clock uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rates {
    /// Measured ones where this GPU model has them, else nominal ones.
    Best,
    /// Datasheet rates and general efficiencies.
    Nominal,
}

/// The step that stands for all later ones.
const SECOND: u64 = 2;

/// Steady steps replayed: the allocator's pool settles within the second.
const STEADY_STEPS: usize = 2;

/// Simulates a training process: construction, first step, steady steps. Under a pipeline the timelines
/// are those of the stage that the scenario names; every other is summarised, and the verdict is of the
/// highest.
pub fn simulate(scenario: &ValidScenario) -> Simulation {
    let mut simulation = simulate_with(scenario, Rates::Best);
    judge_every_stage(scenario, &mut simulation.report);
    simulation
}

/// The report of one rank becomes the job's. The highest stage is replayed in full when it is not the one
/// shown: what the allocator reserves does not compose.
fn judge_every_stage(scenario: &ValidScenario, report: &mut Report) {
    let shown = scenario.document().parallel.stage;
    report.ranks = report::ranks(scenario, &footprint(scenario, Bytes::ZERO));
    let Some(highest) = report::highest(&report.ranks).map(|rank| rank.stage) else { return };
    report.verdict.stage = Some(shown);
    let mut replayed = Vec::from([(shown, report.verdict.outcome)]);
    if highest != shown {
        let other = simulate_with(&scenario.with_stage(highest), Rates::Best).report.verdict;
        replayed.push((highest, other.outcome));
        // The shown stage still decides where fragments make its pool the larger one.
        if other.margin_bytes <= report.verdict.margin_bytes {
            report.verdict = Verdict { stage: Some(highest), ..other };
        }
    }
    report.figures = report::figures(scenario, report);
    for rank in &mut report.ranks {
        let known = replayed.iter().find(|(stage, _)| *stage == rank.stage);
        rank.outcome = known.map_or(rank.outcome, |(_, outcome)| *outcome);
    }
}

/// One rank alone, with a choice of rates.
pub fn simulate_with(scenario: &ValidScenario, rates: Rates) -> Simulation {
    simulate_up_to(scenario, rates, SECOND)
}

/// As [`simulate_with`], with this step of the process instead of a steady one. It differs where a
/// gradient scaler skips the first updates: without them there are no optimizer states yet.
pub fn simulate_step(scenario: &ValidScenario, rates: Rates, step: u64) -> Simulation {
    let skips = skipped_steps(scenario);
    simulate_up_to(scenario, rates, if skips == 0 { SECOND } else { step.max(SECOND) })
}

fn skipped_steps(scenario: &ValidScenario) -> u64 {
    let document = scenario.document();
    match document.precision {
        Precision::AmpFp16 => scenario.family().skipped_steps(document.workload.micro_batch),
        _ => 0,
    }
}

fn simulate_up_to(scenario: &ValidScenario, rates: Rates, step: u64) -> Simulation {
    let history = History::run(scenario, step);
    let mut pool = endless_pool(scenario);
    let replays = history.replay(&mut pool);
    let names = &history.parameter_names;
    let clock = clock(scenario, rates);
    let mut timed = Timed::default();

    let mut step = |run: &Run, replayed: &Replayed| {
        timed.run(run, &clock);
        let timeline = timeline(run, replayed, &timed, names);
        let context = time_context(scenario, history.counts, clock.mode());
        let time = report::time_report(&timed, &timeline, &context);
        let outside = scenario.outside_pool().total();
        let report = report::step_report(&run.record, replayed, &timeline, outside, time);
        (timeline, report)
    };
    let (first, first_report) = step(&history.first, &replays.first);
    let (steady, steady_report) = step(&history.steady, &replays.steady);
    let verdict = judge(scenario, &history, &replays, [&first_report, &steady_report]);
    let report = assemble(scenario, history.counts, verdict, first_report, steady_report);
    Simulation { report, first, steady }
}

fn assemble(
    scenario: &ValidScenario,
    counts: ParameterCounts,
    verdict: Verdict,
    first: StepReport,
    steady: StepReport,
) -> Report {
    let mut report = Report {
        version: REPORT_VERSION,
        engine: report::engine(),
        scenario: scenario.document().clone(),
        model: report::model_facts(scenario, counts),
        gpu: report::gpu_facts(scenario),
        verdict,
        first,
        steady,
        ranks: Vec::new(),
        figures: Vec::<Figure>::new(),
        notes: scenario.notes().to_vec(),
    };
    report.figures = report::figures(scenario, &report);
    report
}

/// A process that has its first step behind it.
#[derive(Debug)]
pub struct Prepared<'a> {
    process: Process<'a>,
    pool: Pool,
}

impl<'a> Prepared<'a> {
    /// Builds the process and runs its first step, on a card with room for anything.
    ///
    /// # Panics
    ///
    /// Never: validation parsed the allocator's options.
    pub fn new(scenario: &'a ValidScenario) -> Self {
        let (mut process, build) = Process::build(scenario);
        let mut pool = endless_pool(scenario);
        pool.replay(&build);
        pool.replay(&process.step());
        Self { process, pool }
    }

    /// Runs one more step: its requests, and what the allocator made of them.
    pub fn steady_step(&mut self) -> (Run, Replayed) {
        let run = self.process.step();
        let replayed = self.pool.replay(&run);
        (run, replayed)
    }
}

/// The three runs of a process.
struct History {
    build: Run,
    first: Run,
    /// Steps between the first and the steady one, when that is not the second.
    between: Vec<Run>,
    steady: Run,
    counts: ParameterCounts,
    parameter_names: Vec<String>,
}

/// What the allocator made of them.
struct Replays {
    build: Replayed,
    first: Replayed,
    steady: Replayed,
    reserved_peak: Bytes,
}

impl History {
    fn run(scenario: &ValidScenario, step: u64) -> Self {
        let (mut process, build) = Process::build(scenario);
        if SECOND < step {
            process.skip_updates(skipped_steps(scenario));
        }
        let first = process.step();
        let between = (SECOND..step).map(|_| process.step()).collect();
        let steady = process.step();
        Self {
            build,
            first,
            between,
            steady,
            counts: ParameterCounts {
                total: process.parameters(),
                trainable: process.trainable_parameters(),
                local: process.local_parameters(),
            },
            parameter_names: process.parameter_names(),
        }
    }

    fn replay(&self, pool: &mut Pool) -> Replays {
        let build = pool.replay(&self.build);
        let first = pool.replay(&self.first);
        let mut peak = highest(&build).max(highest(&first));
        for run in &self.between {
            peak = peak.max(highest(&pool.replay(run)));
        }
        let mut steady = pool.replay(&self.steady);
        peak = peak.max(highest(&steady));
        let repeats = if self.between.is_empty() { STEADY_STEPS } else { 1 };
        for _ in 1..repeats {
            steady = pool.replay_again(&self.steady);
            peak = peak.max(highest(&steady));
        }
        Replays { build, first, steady, reserved_peak: Bytes::new(peak) }
    }

    /// The largest workspace that a convolution asks for.
    fn largest_workspace(&self) -> Bytes {
        let of = |run: &Run| report::largest_workspace(&run.record);
        of(&self.first).max(of(&self.steady))
    }

    /// The process under a limit, up to its first failure.
    fn trial(&self, mut pool: Pool) -> Trial {
        let mut reserved = 0;
        let first = [&self.build, &self.first].map(|run| (run, StepKind::First));
        let later = self.between.iter().chain([&self.steady]).map(|run| (run, StepKind::Steady));
        for (run, step) in first.into_iter().chain(later) {
            let replayed = pool.replay(run);
            reserved = reserved.max(highest(&replayed));
            if let Some(failure) = replayed.failure {
                let failure = out_of_memory(run, step, failure.request);
                return Trial { reserved: Bytes::new(reserved), failure: Some(failure) };
            }
        }
        Trial { reserved: Bytes::new(reserved), failure: None }
    }
}

/// An allocator as the scenario sets it, with so many bytes left for it.
fn pool(scenario: &ValidScenario, free_bytes: u64) -> Pool {
    Pool::new(settings(scenario), device_bytes(scenario), free_bytes)
}

/// An allocator as the scenario sets it, on a card with room for anything.
fn endless_pool(scenario: &ValidScenario) -> Pool {
    Pool::endless(settings(scenario), device_bytes(scenario))
}

fn settings(scenario: &ValidScenario) -> Settings {
    let conf = &scenario.document().stack.alloc_conf;
    Settings::parse(conf).expect("validation parsed the allocator's options")
}

const fn device_bytes(scenario: &ValidScenario) -> u64 {
    scenario.gpu().usable_mib * MIB
}

fn highest(replayed: &Replayed) -> u64 {
    replayed.reserved.iter().copied().max().unwrap_or(replayed.base_reserved)
}

fn out_of_memory(run: &Run, step: StepKind, event: u32) -> OutOfMemory {
    let record = &run.record;
    let storage = &record.storages[record.requests[event as usize].storage().index()];
    let phase = record.phases.iter().rev().find(|phase| phase.request <= event);
    OutOfMemory {
        step,
        phase: phase.map_or(PhaseKind::Build, |phase| phase.kind),
        event,
        requested_bytes: Bytes::new(storage.bytes),
        what: report::place(&storage.scope, storage.prim, true),
    }
}

/// What stands beside the pool, and the limits.
fn footprint(scenario: &ValidScenario, workspace: Bytes) -> Footprint {
    let hardware = &scenario.document().hardware;
    Footprint {
        capacity: Bytes::new(device_bytes(scenario)),
        already_used: Bytes::new(hardware.already_used_bytes),
        outside_pool: scenario.outside_pool().total(),
        outside_band: scenario.outside_pool().band,
        workspace,
        process_cap: hardware.process_cap_bytes.map(Bytes::new),
        compiled: scenario.document().stack.compile,
    }
}

fn judge(
    scenario: &ValidScenario,
    history: &History,
    replays: &Replays,
    steps: [&StepReport; 2],
) -> Verdict {
    let footprint = footprint(scenario, history.largest_workspace());
    let peak = replays.reserved_peak;
    let trials = (footprint.pool_limit(peak, End::Tight) < peak.get()).then(|| {
        [End::Tight, End::Loose]
            .map(|end| history.trial(pool(scenario, footprint.pool_limit(peak, end))))
    });
    let [first, steady] = steps;
    let (step, set_by) = if steady.peak_reserved_bytes <= first.peak_reserved_bytes
        && steady.peak_requested_bytes < first.peak_requested_bytes
    {
        (StepKind::First, first)
    } else {
        (StepKind::Steady, steady)
    };
    debug_assert!(replays.build.failure.is_none(), "an unlimited replay never fails");
    report::verdict(&footprint, replays.reserved_peak, trials, step, set_by.peak_phase)
}

fn clock(scenario: &ValidScenario, rates: Rates) -> Clock {
    let tf32 = if scenario.document().stack.tf32 { Tf32::ALL } else { Tf32::DEFAULT };
    match rates {
        Rates::Best => Clock::best(scenario.gpu(), tf32),
        Rates::Nominal => Clock::nominal(scenario.gpu(), tf32),
    }
}

/// Tokens, model FLOPs and the peak rate.
///
/// # Formula
///
/// ```text
/// model FLOPs = (4 · N + 2 · N_trainable) · tokens + 6 · L · s · h_q · tokens
///               (causal attention, half of 12·L·s·h_q; the whole elsewhere),
///               over the ranks that share each product
/// ```
///
/// # Source
///
/// Chowdhery et al. 2022 (`PaLM`), appendix B, with the causal half of the attention term.
#[expect(clippy::cast_precision_loss, reason = "rates are floats; counts stay far below 2^53")]
fn time_context(scenario: &ValidScenario, counts: ParameterCounts, mode: TimeMode) -> TimeContext {
    let workload = &scenario.document().workload;
    let family = scenario.family();
    let seen = family.tokens(workload.seq_len);
    let tokens = (workload.micro_batch * seen * workload.grad_accum) as f64;
    let (layers, width) = (family.layers(), family.heads() * family.head_dim());
    // Two FLOPs for each weight forward, two for its input's gradient, two for its own.
    let idle = family.idle_parameters();
    let met = |parameters: u64| parameters.saturating_sub(idle) as f64;
    let products = 4.0 * met(counts.total) + 2.0 * met(counts.trainable);
    let parallel = &scenario.document().parallel;
    let ranks = (parallel.tensor * parallel.pipeline * parallel.context) as f64;
    let replicas = scenario.document().hardware.count as f64 / ranks;
    let half = if family.task() == Task::CausalLm { 6.0 } else { 12.0 };
    let attention = half * layers as f64 * seen as f64 * width as f64;
    let model_flops = match family.forward_flops() {
        // Backward makes two gradients of the size of each product.
        Some(forward) => 3.0 * forward as f64 * tokens,
        None => (products + attention) * tokens,
    };
    let gpu = scenario.gpu();
    let tflops = match scenario.document().precision {
        Precision::Bf16 | Precision::AmpBf16 => gpu.bf16_tflops.or(gpu.fp16_tflops),
        Precision::Fp16 | Precision::AmpFp16 => gpu.fp16_tflops,
        Precision::Fp32 if scenario.document().stack.tf32 => gpu.tf32_tflops.or(gpu.fp32_tflops),
        Precision::Fp32 => gpu.fp32_tflops,
    };
    TimeContext {
        tokens: tokens * replicas,
        model_flops: model_flops / ranks,
        peak_flops: tflops.map(|rate| rate * 1e12),
        mode,
    }
}
