//! Every stage of a pipeline from few micro-batches and layers.
//!
//! Stages differ in whether they have the embedding or the loss, and in how many forwards wait for their
//! backward. Of each kind, construction and update run with all layers, and the schedule with a first, an
//! interior and a last layer, a first, a middle and a last forward before the first backward, and as many
//! after it. A stage's order of forwards and backwards is then walked with their summaries.

use crate::megatron::{Cut, Job, Stage};
use crate::program::Run;
use crate::scenario::ValidScenario;
use crate::wire::report::StepKind;
use crate::wire::timeline::PhaseKind;

use super::fold::{Visit, visits};
use super::swell::Swell;

/// Of each chunk: first, interior, last.
const LAYERS: u64 = 3;
/// Forwards in a row: first, middle, last.
const IN_A_ROW: u64 = 3;

/// One stage's highest point in a process's first two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageSummary {
    /// The stage.
    pub stage: u64,
    /// Highest live bytes of construction and the first step, each request rounded.
    pub first_peak: u64,
    /// The same of every later step.
    pub steady_peak: u64,
    /// In which step the higher one is; of equal ones the steady one.
    pub step: StepKind,
    /// What stands there, and what got there.
    pub highest: Swell,
    /// Forwards whose backward has not ended there, counted with the chunks.
    pub in_flight: u64,
}

/// Summarises every stage; nothing where there is no pipeline.
pub fn stages(scenario: &ValidScenario) -> Vec<StageSummary> {
    let parallel = &scenario.document().parallel;
    if scenario.megatron().is_none() || parallel.pipeline < 2 {
        return Vec::new();
    }
    let mut known = Known { scenario, bodies: Vec::new(), cuts: Vec::new() };
    (0..parallel.pipeline).map(|stage| known.summary(stage)).collect()
}

/// Construction and updates of a kind of stage: first and last or not.
struct Body {
    kind: (bool, bool),
    job: Job,
    build: Swell,
    /// Of the first step and of a later one.
    updates: [Swell; 2],
}

/// Forwards and backwards in the order in which a schedule runs them, and that the data go.
struct Jobs {
    jobs: Vec<Stretch>,
    end: Swell,
}

/// One forward or backward, with what is sent and received around it.
#[derive(Clone, Copy)]
struct Stretch {
    backward: bool,
    micro_batch: u32,
    swell: Swell,
}

/// What has been run.
struct Known<'a> {
    scenario: &'a ValidScenario,
    bodies: Vec<Body>,
    cuts: Vec<(Stage, [Jobs; 2])>,
}

impl Known<'_> {
    fn summary(&mut self, stage: u64) -> StageSummary {
        let document = self.scenario.document();
        let (stages, micro_batches) = (document.parallel.pipeline, document.workload.grad_accum);
        let whole = Stage::of(stages, stage, micro_batches);
        let body = self.body(stage, (whole.first, whole.last));
        if 1 < document.parallel.virtual_stages {
            let jobs = self.schedule(body, Err(stage));
            return walk(stage, &self.bodies[body], &jobs);
        }
        let short = Stage {
            // Two are the first and the last of three.
            warmup: if whole.warmup < 2 { whole.warmup } else { IN_A_ROW },
            steady: whole.steady.min(IN_A_ROW),
            ..whole
        };
        let known = self.cuts.iter().position(|(of, _)| *of == short);
        let index = known.unwrap_or_else(|| {
            let jobs = self.schedule(body, Ok(short));
            self.cuts.push((short, jobs));
            self.cuts.len() - 1
        });
        let jobs = self.cuts[index].1.each_ref().map(|jobs| lengthened(jobs, short, whole));
        walk(stage, &self.bodies[body], &jobs)
    }

    /// The stage's body, built when it is the first of its kind.
    fn body(&mut self, stage: u64, kind: (bool, bool)) -> usize {
        if let Some(index) = self.bodies.iter().position(|body| body.kind == kind) {
            return index;
        }
        let (mut job, build) = Job::build_stage(self.scenario, stage);
        let build = all(&build);
        let updates = [all(&job.run_update()), all(&job.run_update())];
        self.bodies.push(Body { kind, job, build, updates });
        self.bodies.len() - 1
    }

    /// First and steady schedule of a stage.
    fn schedule(&self, body: usize, schedule: Result<Stage, u64>) -> [Jobs; 2] {
        let job = &self.bodies[body].job;
        let real = job.chunk_layers();
        let layers = real.min(LAYERS);
        let mut job = job.cut(self.scenario, Cut { layers, schedule });
        let repeats = 1 + real - layers;
        [job.run_schedule(), job.run_schedule()].map(|run| jobs(&run, layers, repeats))
    }
}

/// Requests of a whole run.
fn all(run: &Run) -> Swell {
    visits(&run.record).fold(Swell::NONE, |swell, visit| swell.then(&of_visit(run, &visit)))
}

fn of_visit(run: &Run, visit: &Visit) -> Swell {
    let phase = (visit.phase.kind, visit.phase.micro_batch);
    Swell::of(&run.record, &run.record.requests[visit.start..visit.end], phase)
}

/// Cuts a schedule's run into forwards and backwards; interior layers count as often as there are.
fn jobs(run: &Run, layers: u64, repeats: u64) -> Jobs {
    let mut jobs: Vec<Stretch> = Vec::new();
    let mut end = Swell::NONE;
    let mut loss = false;
    for visit in visits(&run.record) {
        let place = visit.layer.map_or(0, |layer| u64::from(layer) % layers);
        let interior = 0 < place && place + 1 < layers;
        let swell = of_visit(run, &visit).repeat(if interior { repeats } else { 1 });
        let kind = visit.phase.kind;
        if kind == PhaseKind::ZeroGrad {
            end = end.then(&swell);
            continue;
        }
        let backward = kind == PhaseKind::Backward;
        let micro_batch = visit.phase.micro_batch;
        match jobs.last_mut().filter(|last| {
            (last.backward, last.micro_batch) == (backward, micro_batch)
                && !(loss && kind == PhaseKind::Forward)
        }) {
            Some(last) => last.swell = last.swell.then(&swell),
            None => jobs.push(Stretch { backward, micro_batch, swell }),
        }
        loss = kind == PhaseKind::Loss;
    }
    Jobs { jobs, end }
}

/// The whole schedule of a stage from a short one.
fn lengthened(jobs: &Jobs, short: Stage, whole: Stage) -> Jobs {
    // A first, a middle and a last stand for as many as there are.
    let stands = |i: u64, short: u64, whole: u64| {
        if i + 1 == whole { short - 1 } else { i.min(short.saturating_sub(2)) }
    };
    let mut order: Vec<(u64, bool, u64)> = Vec::new();
    for i in 0..whole.warmup {
        order.push((stands(i, short.warmup, whole.warmup), false, i));
    }
    for i in 0..whole.steady {
        let pair = short.warmup + 2 * stands(i, short.steady, whole.steady);
        order.extend([(pair, false, whole.warmup + i), (pair + 1, true, i)]);
    }
    let begun = short.warmup + 2 * short.steady;
    for i in 0..whole.warmup {
        order.push((begun + stands(i, short.warmup, whole.warmup), true, whole.steady + i));
    }
    let long = order.into_iter().filter_map(|(index, backward, micro_batch)| {
        let micro_batch = u32::try_from(micro_batch).unwrap_or(u32::MAX);
        let stretch = jobs.jobs.get(usize::try_from(index).ok()?)?;
        let swell = stretch.swell.in_micro_batch(micro_batch);
        Some(Stretch { backward, micro_batch, swell })
    });
    Jobs { jobs: long.collect(), end: jobs.end }
}

/// A process from its beginning.
fn walk(stage: u64, body: &Body, [first, steady]: &[Jobs; 2]) -> StageSummary {
    let mut process = Walk { live: Swell::NONE, in_flight: 0, at_peak: 0 };
    process.add(&body.build);
    process.step(first, &body.updates[0]);
    let (one, waiting) = (process.live, process.at_peak);
    process = Walk { live: process.live.settled(), in_flight: 0, at_peak: 0 };
    process.step(steady, &body.updates[1]);
    let [first_peak, steady_peak] =
        [one, process.live].map(|swell| swell.peak.max(0).cast_unsigned());
    let (step, highest, in_flight) = if steady_peak < first_peak {
        (StepKind::First, one, waiting)
    } else {
        (StepKind::Steady, process.live, process.at_peak)
    };
    StageSummary { stage, first_peak, steady_peak, step, highest, in_flight }
}

struct Walk {
    live: Swell,
    in_flight: u64,
    at_peak: u64,
}

impl Walk {
    fn step(&mut self, jobs: &Jobs, update: &Swell) {
        for stretch in &jobs.jobs {
            self.in_flight += u64::from(!stretch.backward);
            self.add(&stretch.swell);
            self.in_flight -= u64::from(stretch.backward);
        }
        self.add(update);
        self.add(&jobs.end);
    }

    fn add(&mut self, swell: &Swell) {
        let before = self.live.peak;
        self.live = self.live.then(swell);
        if before < self.live.peak {
            self.at_peak = self.in_flight;
        }
    }
}
