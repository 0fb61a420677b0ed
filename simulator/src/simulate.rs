//! The pipeline: a valid scenario becomes two timelines and a report.

use crate::scenario::ValidScenario;
use crate::units::Bytes;
use crate::wire::report::{
    CategoryBytes, Engine, GpuFacts, LimitedBy, ModelFacts, Outcome, PhaseReport, REPORT_VERSION,
    StepKind, StepReport, TimeMode, TimeReport, Verdict,
};
use crate::wire::timeline::{
    BEFORE, Category, Events, NEVER, NO_LAYER, Phase, PhaseKind, Tensors, Timeline, Work,
};
use crate::wire::{Report, Scenario};

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

/// Simulates a training process: build, first step, steady step.
pub fn simulate(scenario: &ValidScenario) -> Simulation {
    let timeline = placeholder();
    let report = placeholder_report(scenario.document(), scenario.model_name());
    Simulation { report, first: timeline.clone(), steady: timeline }
}

/// A saw-tooth of ten tensors, until the interpreter lands.
fn placeholder() -> Timeline {
    let mut events = Events::default();
    let mut tensors = Tensors::default();
    let mut push = |bytes: u64, born: u32, freed: u32, category: Category| {
        tensors.bytes.push(bytes);
        tensors.born.push(born);
        tensors.freed.push(freed);
        tensors.category.push(category as u8);
        tensors.name.push(0);
        tensors.primitive.push(1);
        tensors.block.push(2);
        tensors.layer.push(NO_LAYER);
    };
    push(8 << 30, BEFORE, NEVER, Category::Weights);
    for i in 0..1000_u32 {
        push(32 << 20, i, 1999 - i, Category::Activations);
    }
    for event in 0..2000_u32 {
        events.time_ns.push(u64::from(event) * 50_000);
        events.tensor.push(if event < 1000 { event + 1 } else { 2000 - event });
        events.is_alloc.push(u8::from(event < 1000));
        events.reserved.push(48 << 30);
        events.allocated.push(0);
    }
    let phase = |kind, first_event: u32, end_event: u32| Phase {
        kind,
        micro_batch: 0,
        first_event,
        end_event,
        start_ns: u64::from(first_event) * 50_000,
        end_ns: u64::from(end_event) * 50_000,
    };
    Timeline {
        labels: ["hidden_states", "linear", "mlp"].map(String::from).into(),
        tensors,
        events,
        phases: Vec::from([
            phase(PhaseKind::Forward, 0, 1000),
            phase(PhaseKind::Backward, 1000, 2000),
        ]),
        work: Work::default(),
        base_bytes: 8 << 30,
        base_reserved: 9 << 30,
        step_ns: 100_000_000,
    }
}

fn placeholder_report(document: &Scenario, model: &str) -> Report {
    let time = TimeReport {
        step_s: 0.1,
        forward_s: 0.05,
        backward_s: 0.05,
        optimizer_s: 0.0,
        device_idle_s: 0.0,
        host_bound: false,
        tokens_per_s: 0.0,
        mfu: None,
        mode: TimeMode::Nominal,
    };
    let step = StepReport {
        base_bytes: Bytes::from_gib(8),
        peak_requested_bytes: Bytes::from_gib(39),
        peak_allocated_bytes: Bytes::from_gib(39),
        peak_reserved_bytes: Bytes::from_gib(48),
        peak_event: 999,
        peak_ns: 50_000_000,
        peak_phase: PhaseKind::Forward,
        categories: Vec::from([CategoryBytes {
            category: Category::Weights,
            bytes: Bytes::from_gib(8),
        }]),
        breakdown: Vec::new(),
        phases: Vec::from([PhaseReport {
            kind: PhaseKind::Forward,
            micro_batch: 0,
            start_bytes: Bytes::from_gib(8),
            end_bytes: Bytes::from_gib(39),
            peak_bytes: Bytes::from_gib(39),
            length_ns: 50_000_000,
        }]),
        allocations: 1000,
        time,
    };
    Report {
        version: REPORT_VERSION,
        engine: Engine { version: env!("CARGO_PKG_VERSION").to_owned(), predictions: 0 },
        scenario: document.clone(),
        model: ModelFacts {
            name: model.to_owned(),
            class: String::new(),
            parameters: 0,
            buffer_bytes: Bytes::ZERO,
            layers: 0,
        },
        gpu: GpuFacts {
            id: document.hardware.gpu.clone(),
            name: document.hardware.gpu.clone(),
            capacity_bytes: Bytes::from_gib(80),
            unverified: Vec::new(),
        },
        verdict: Verdict {
            outcome: Outcome::Fits,
            device_peak_bytes: Bytes::from_gib(49),
            limit_bytes: Bytes::from_gib(80),
            margin_bytes: 31 << 30,
            band_bytes: Bytes::from_gib(1),
            step: StepKind::Steady,
            phase: PhaseKind::Forward,
            limited_by: LimitedBy::Card,
            out_of_memory: None,
        },
        first: step.clone(),
        steady: step,
        figures: Vec::new(),
    }
}
