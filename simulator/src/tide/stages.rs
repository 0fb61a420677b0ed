//! Every stage of a pipeline from few micro-batches and layers.
//!
//! Stages differ in whether they have the embedding or the loss, and in how many forwards wait for their
//! backward. Of each kind, construction and update run with all layers, and the schedule with two layers,
//! and two forwards before the first backward and after it: in a row the first is like no other, and the
//! others are alike. A stage's order of forwards and backwards is then walked with their summaries, with
//! as many interior layers in each as there are.

use crate::megatron::{Job, Order, Stage};
use crate::scenario::ValidScenario;
use crate::wire::parallel::DataParallel;
use crate::wire::report::StepKind;

use super::slots::{Between, ENDS_RUN, INNER_RUN, Interior, Step, all};
use super::swell::Swell;
use super::walk::{Turn, Walked, as_run, lengthened, walk};

/// In a row: the first, and all others.
const ROW: u64 = 2;
/// Where the last in a row is different, too.
const ROW_WITH_LAST: u64 = 3;
/// Logits stay in two buffers, and the last backward reduces gradients: the first, the second, all
/// others, the last.
const ROW_OF_DEEPSPEED: u64 = 4;

/// One stage's highest point in a process's first two steps.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Highest bytes in each slot of that step, or in several together.
    pub course: Vec<u64>,
}

/// Summarises every stage; nothing where there is no pipeline.
pub fn stages(scenario: &ValidScenario) -> Vec<StageSummary> {
    let parallel = &scenario.document().parallel;
    if scenario.megatron().is_none() || parallel.pipeline < 2 {
        return Vec::new();
    }
    let mut known = Known { scenario, interior: None, bodies: Vec::new(), cuts: Vec::new() };
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

/// A short process.
struct Short {
    build: Swell,
    steps: [Step; 2],
}

/// What has been run.
struct Known<'a> {
    scenario: &'a ValidScenario,
    interior: Option<Interior>,
    bodies: Vec<Body>,
    cuts: Vec<(Stage, Short)>,
}

impl Known<'_> {
    fn summary(&mut self, stage: u64) -> StageSummary {
        let document = self.scenario.document();
        let (stages, micro_batches) = (document.parallel.pipeline, document.workload.grad_accum);
        let whole = Stage::of(stages, stage, micro_batches);
        if 1 < document.parallel.virtual_stages {
            let body = self.body(stage, (whole.first, whole.last));
            let steps = self.schedule(body, Order::Interleaved(stage));
            let turns = steps.each_ref().map(as_run);
            return summary(stage, &self.bodies[body].build, &steps, turns.each_ref());
        }
        let short = self.shortened(whole);
        let known = self.cuts.iter().position(|(of, _)| *of == short);
        let index = known.unwrap_or_else(|| {
            let cut = self.short(stage, short);
            self.cuts.push((short, cut));
            self.cuts.len() - 1
        });
        let Short { build, steps } = &self.cuts[index].1;
        let turns = lengthened(short, whole);
        summary(stage, build, steps, [&turns; 2])
    }

    /// Whether layers keep something from one micro-batch to the next.
    fn layers_keep(&self) -> bool {
        self.scenario.megatron().is_some_and(|model| model.mixture.is_some())
    }

    /// A schedule with every kind of slot that the whole one has.
    fn shortened(&self, whole: Stage) -> Stage {
        let [warmup, steady] = if self.deepspeed() {
            [ROW_OF_DEEPSPEED; 2]
        } else if self.layers_keep() || whole.steady <= ROW {
            // With few pairs in between, the last backward meets what the first one left.
            [ROW_WITH_LAST; 2]
        } else if whole.first {
            // The iterator still holds the ids that the last backward would let go.
            [ROW_WITH_LAST, ROW]
        } else {
            [ROW; 2]
        };
        Stage { warmup: whole.warmup.min(warmup), steady: whole.steady.min(steady), ..whole }
    }

    fn deepspeed(&self) -> bool {
        self.scenario.document().parallel.data == Some(DataParallel::Zero1)
    }

    fn short(&mut self, stage: u64, short: Stage) -> Short {
        if self.deepspeed() {
            return self.whole_layers(stage, short);
        }
        let body = self.body(stage, (short.first, short.last));
        let steps = self.schedule(body, Order::Plain(short));
        Short { build: self.bodies[body].build, steps }
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

    /// First and steady step of a stage.
    fn schedule(&mut self, body: usize, order: Order) -> [Step; 2] {
        let layers = self.bodies[body].job.chunk_layers();
        let fewest = layers.iter().copied().min().unwrap_or(0);
        let [mut first, mut steady] = if self.layers_keep() && INNER_RUN < fewest {
            let mut job = self.cut(body, INNER_RUN, order);
            let between = Between::Second(&layers);
            [job.run_schedule(), job.run_schedule()].map(|run| Step::of(&run, between))
        } else if !self.layers_keep() && ENDS_RUN < fewest {
            let mut job = self.cut(body, ENDS_RUN, order);
            let interior = self.interior.get_or_insert_with(|| Interior::of(self.scenario));
            let between = Between::Like(interior, &layers);
            let run = job.run_schedule();
            match order {
                Order::Plain(stage) if ROW <= stage.steady => {
                    Step::both(&run, &job.run_first_forward(), between)
                }
                _ => {
                    let first = Step::of(&run, between);
                    let steady = first.beginning_as(&Step::of(&job.run_shorter(), between));
                    [first, steady]
                }
            }
        } else {
            let job = match (layers.as_slice(), order) {
                (&[count], Order::Plain(_)) => &mut self.cut(body, count, order),
                _ => &mut self.bodies[body].job,
            };
            [job.run_schedule(), job.run_schedule()].map(|run| Step::of(&run, Between::Nothing))
        };
        let [of_first, of_steady] = &self.bodies[body].updates;
        first.update_with(of_first);
        steady.update_with(of_steady);
        [first, steady]
    }

    fn cut(&self, body: usize, layers: u64, order: Order) -> Job {
        let (mut job, _) = Job::cut(self.scenario, layers, order);
        job.ends_as(&self.bodies[body].job);
        job
    }

    /// `DeepSpeed`'s update needs the gradients of every layer.
    fn whole_layers(&self, stage: u64, short: Stage) -> Short {
        let (whole, _) = Job::build_stage(self.scenario, stage);
        let layers = whole.chunk_layers().iter().sum();
        let (mut job, build) = Job::cut(self.scenario, layers, Order::Plain(short));
        let steps = [job.step(), job.step()].map(|run| Step::of(&run, Between::Nothing));
        Short { build: all(&build), steps }
    }
}

/// A process from its beginning.
fn summary(
    stage: u64,
    build: &Swell,
    [first, steady]: &[Step; 2],
    [turns, later]: [&Vec<Turn>; 2],
) -> StageSummary {
    let one = walk(*build, first, turns);
    let other = walk(one.live.settled(), steady, later);
    let height = |bytes: i64| bytes.max(0).cast_unsigned();
    let [first_peak, steady_peak] = [&one, &other].map(|of| height(of.live.peak));
    let (step, Walked { live, in_flight, course }) =
        if steady_peak < first_peak { (StepKind::First, one) } else { (StepKind::Steady, other) };
    let course = course.into_iter().map(height).collect();
    StageSummary { stage, first_peak, steady_peak, step, highest: live, in_flight, course }
}
