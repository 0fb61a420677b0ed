//! What must hold for every scenario, tried on random small ones.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use simulator::catalog::Catalog;
use simulator::scenario::{ValidScenario, limits, validate};
use simulator::units::Bytes;
use simulator::wire::model::ModelKind;
use simulator::wire::parallel::DataParallel;
use simulator::wire::report::{Outcome, PhaseReport, StepReport};
use simulator::wire::scenario::{Checkpointing, Model, Workload};
use simulator::wire::timeline::{BEFORE, Category, NEVER, PhaseKind};
use simulator::wire::{Scenario, Timeline};
use simulator::{Simulation, simulate};

mod scenarios;

use scenarios::{one_of, reads_images, scenario};

static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::builtin);

const MIB: u64 = 1 << 20;

fn valid(scenario: &Scenario) -> ValidScenario {
    validate(scenario, &CATALOG).unwrap_or_else(|faults| panic!("{faults}"))
}

fn run(scenario: &Scenario) -> Simulation {
    simulate(&valid(scenario))
}

/// Bytes by category after each event, from the tensors' columns.
fn categories(timeline: &Timeline) -> Vec<[i64; Category::ALL.len()]> {
    let tensors = &timeline.tensors;
    let mut changes = vec![[0_i64; Category::ALL.len()]; timeline.events.len() + 1];
    for tensor in 0..tensors.len() {
        let category = usize::from(tensors.category[tensor]);
        let bytes = tensors.bytes[tensor].cast_signed();
        let (born, freed) = (tensors.born[tensor], tensors.freed[tensor]);
        let birth = if born == BEFORE { 0 } else { born as usize + 1 };
        changes[birth][category] += bytes;
        if freed != NEVER {
            changes[freed as usize + 1][category] -= bytes;
        }
    }
    for event in 1..changes.len() {
        for category in Category::ALL {
            changes[event][category as usize] += changes[event - 1][category as usize];
        }
    }
    changes
}

/// Live requested bytes before the first and after each event, from the events.
fn live(timeline: &Timeline) -> Vec<u64> {
    let events = &timeline.events;
    let mut live = vec![timeline.base_bytes];
    for event in 0..events.len() {
        let bytes = timeline.tensors.bytes[events.tensor[event] as usize];
        let before = live[event];
        live.push(if events.is_alloc[event] == 1 { before + bytes } else { before - bytes });
    }
    live
}

fn check_columns(timeline: &Timeline, live: &[u64]) -> TestCaseResult {
    let events = &timeline.events;
    let n = events.len();
    for length in [events.tensor.len(), events.is_alloc.len(), events.reserved.len()] {
        prop_assert_eq!(length, n);
    }
    prop_assert!(events.time_ns.is_sorted());
    prop_assert!(events.time_ns.last().is_none_or(|&last| last <= timeline.step_ns));
    let by_category = categories(timeline);
    for (sums, &live) in by_category.iter().zip(live) {
        prop_assert!(sums.iter().all(|&bytes| 0 <= bytes), "{:?}", sums);
        prop_assert_eq!(sums.iter().sum::<i64>(), live.cast_signed());
        prop_assert_eq!(sums[Category::OutsidePool as usize], 0);
        prop_assert_eq!(sums[Category::Slack as usize], 0);
    }
    prop_assert!(timeline.base_bytes <= timeline.base_allocated);
    prop_assert!(timeline.base_allocated <= timeline.base_reserved);
    for (event, &live) in live[1..].iter().enumerate() {
        prop_assert!(live <= events.allocated[event]);
        prop_assert!(events.allocated[event] <= events.reserved[event]);
    }
    Ok(())
}

fn check_phases(timeline: &Timeline, report: &StepReport, live: &[u64]) -> TestCaseResult {
    let phases = &timeline.phases;
    prop_assert_eq!(phases.first().map(|phase| phase.first_event), Some(0));
    prop_assert_eq!(phases.last().map(|p| p.end_event as usize), Some(timeline.events.len()));
    prop_assert!(phases.windows(2).all(|pair| pair[0].end_event == pair[1].first_event));
    prop_assert_eq!(phases.len(), report.phases.len());
    for (phase, row) in phases.iter().zip(&report.phases) {
        prop_assert!(phase.start_ns <= phase.end_ns);
        let inside = &live[phase.first_event as usize..=phase.end_event as usize];
        prop_assert_eq!(row.peak_bytes.get(), inside.iter().copied().max().unwrap_or(0));
        prop_assert_eq!(row.start_bytes.get(), inside[0]);
        prop_assert_eq!(row.end_bytes.get(), inside[inside.len() - 1]);
    }
    Ok(())
}

fn check_report(
    timeline: &Timeline,
    report: &StepReport,
    live: &[u64],
    outside: Bytes,
) -> TestCaseResult {
    let events = &timeline.events;
    let highest = |column: &[u64], base: u64| column.iter().copied().fold(base, u64::max);
    prop_assert_eq!(report.base_bytes.get(), timeline.base_bytes);
    prop_assert_eq!(report.peak_requested_bytes.get(), highest(live, 0));
    let allocated = highest(&events.allocated, timeline.base_allocated);
    prop_assert_eq!(report.peak_allocated_bytes.get(), allocated);
    let reserved = highest(&events.reserved, timeline.base_reserved);
    prop_assert_eq!(report.peak_reserved_bytes.get(), reserved);
    let at = report.peak_event as usize;
    prop_assert_eq!(live[at + 1], report.peak_requested_bytes.get());
    let shown: u64 = report.categories.iter().map(|row| row.bytes.get()).sum();
    prop_assert_eq!(shown, events.reserved[at] + outside.get());
    let of_tensors = &categories(timeline)[at + 1];
    for row in &report.categories {
        let expected = match row.category {
            Category::OutsidePool => outside.get(),
            Category::Slack => events.reserved[at] - live[at + 1],
            category => of_tensors[category as usize].unsigned_abs(),
        };
        prop_assert_eq!(row.bytes.get(), expected, "{:?}", row.category);
    }
    let rows: u64 = report.breakdown.iter().map(|row| row.bytes.get()).sum();
    prop_assert_eq!(rows, live[at + 1]);
    Ok(())
}

/// A steady step frees what it makes, and leaves as much as it found: what it keeps for the next one
/// (Megatron-core's dispatchers of tokens do) replaces what was kept for it.
fn check_steady(timeline: &Timeline, live: &[u64]) -> TestCaseResult {
    let tensors = &timeline.tensors;
    let (mut gone, mut kept) = (Vec::new(), Vec::new());
    for tensor in 0..tensors.len() {
        let (born, freed) = (tensors.born[tensor], tensors.freed[tensor]);
        match (born == BEFORE, freed == NEVER) {
            (true, false) => gone.push(tensors.bytes[tensor]),
            (false, true) => kept.push(tensors.bytes[tensor]),
            (before, _) => prop_assert!(before || born < freed, "tensor {}", tensor),
        }
    }
    prop_assert_eq!(gone, kept);
    prop_assert_eq!(live.last(), live.first());
    Ok(())
}

/// What the first forward pass, loss included, leaves for backward. Workspaces of libraries are part
/// of the base: a thread that recomputes has more of them.
fn kept_by_forward(step: &StepReport) -> u64 {
    let is_forward = |p: &&PhaseReport| matches!(p.kind, PhaseKind::Forward | PhaseKind::Loss);
    let forward = step.phases.iter().take_while(is_forward);
    let end = forward.last().expect("a step begins with a forward pass").end_bytes;
    end.get() - step.base_bytes.get()
}

fn peaks(scenario: &Scenario) -> [Bytes; 2] {
    let report = run(scenario).report;
    [report.first, report.steady].map(|step| step.peak_requested_bytes)
}

fn window(scenario: &Scenario) -> Option<u64> {
    let Model::Inline { config, .. } = &scenario.model else { return None };
    let is_used = config.get("use_sliding_window")? == true;
    config.get("sliding_window")?.as_u64().filter(|_| is_used)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn columns_and_report_agree_with_themselves(scenario in scenario()) {
        let valid = valid(&scenario);
        let outside = valid.outside_pool().total();
        let simulation = simulate(&valid);
        let report = &simulation.report;
        let steps = [(&simulation.first, &report.first), (&simulation.steady, &report.steady)];
        for (timeline, report) in steps {
            let live = live(timeline);
            check_columns(timeline, &live)?;
            check_phases(timeline, report, &live)?;
            check_report(timeline, report, &live, outside)?;
        }
        check_steady(&simulation.steady, &live(&simulation.steady))?;
    }

    #[test]
    fn a_larger_batch_never_lowers_the_peak(scenario in scenario(), more in 1..=4_u64) {
        let mut larger = scenario.clone();
        larger.workload.micro_batch += more;
        for (peak, larger) in peaks(&scenario).into_iter().zip(peaks(&larger)) {
            prop_assert!(peak <= larger, "{:?} → {:?}", peak, larger);
        }
    }

    #[test]
    fn a_longer_sequence_never_lowers_the_peak(scenario in scenario(), more in 1..=64_u64) {
        prop_assume!(!reads_images(&scenario.model));
        let mut longer = scenario.clone();
        longer.workload.seq_len += more;
        // Beyond its window a layer has a mask, and with a mask SDPA may choose a leaner kernel.
        prop_assume!(window(&scenario).is_none_or(|window| longer.workload.seq_len <= window));
        for (peak, longer) in peaks(&scenario).into_iter().zip(peaks(&longer)) {
            prop_assert!(peak <= longer, "{:?} → {:?}", peak, longer);
        }
    }

    /// Out of memory is an answer, however far out.
    #[test]
    fn every_size_is_answered(
        scenario in scenario(),
        micro_batch in one_of(&[1, 1024, *limits::MICRO_BATCH.end()]),
        seq_len in one_of(&[1, 131_072, *limits::SEQ_LEN.end()]),
        id in prop::sample::select(
            CATALOG.models.iter().map(|model| model.id.clone()).collect::<Vec<_>>(),
        ),
    ) {
        let workload = Workload { micro_batch, seq_len, target_len: 0, grad_accum: 1 };
        let scenario = Scenario { workload, model: Model::Catalog { id }, ..scenario };
        // What cannot be counted is refused with a fault.
        if let Ok(valid) = validate(&scenario, &CATALOG) {
            let report = simulate(&valid).report;
            let capacity = Bytes::new(valid.gpu().usable_mib * MIB);
            let fits = report.steady.peak_requested_bytes <= capacity;
            prop_assert!(fits || report.verdict.outcome != Outcome::Fits);
        }
    }

    #[test]
    fn checkpointing_never_keeps_more(scenario in scenario()) {
        // Image networks have no checkpoints.
        let Model::Inline { kind, .. } = &scenario.model else { return Ok(()) };
        prop_assume!(*kind != ModelKind::Torchvision);
        // DeepSpeed's third stage keeps gathered weights by what is needed next.
        prop_assume!(scenario.parallel.data != Some(DataParallel::Zero3));
        // Beside a frozen model a layer before the first adapter keeps nothing, but its checkpoint
        // keeps its input.
        let scenario = Scenario { adapter: None, ..scenario };
        let with = |checkpointing| run(&Scenario { checkpointing, ..scenario.clone() }).report;
        let (none, full) = (with(Checkpointing::None), with(Checkpointing::Full));
        prop_assert!(kept_by_forward(&full.first) <= kept_by_forward(&none.first));
        prop_assert!(kept_by_forward(&full.steady) <= kept_by_forward(&none.steady));
    }
}
