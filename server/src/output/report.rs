//! A simulation as text: the verdict first, then what it is made of.

use std::io::{self, Write};

use simulator::Simulation;
use simulator::units::Bytes;
use simulator::wire::report::{
    LimitedBy, Outcome, Report, StepKind, StepReport, TimeMode, TimeReport, Verdict,
};
use simulator::wire::timeline::{BEFORE, Category, NEVER, NO_LAYER, PhaseKind};
use simulator::wire::{Scenario, Timeline};

use super::format::{gib, percent, rounded, seconds, size, thousands};
use super::table::{Side, Table};

/// Rows of the table of the largest tensors.
const TOP: usize = 10;

/// Writes the whole answer.
///
/// # Errors
///
/// The writer's.
pub(crate) fn write(to: &mut dyn Write, simulation: &Simulation) -> io::Result<()> {
    let report = &simulation.report;
    let kind = report.verdict.step;
    let (step, timeline) = match kind {
        StepKind::First => (&report.first, &simulation.first),
        StepKind::Steady => (&report.steady, &simulation.steady),
    };
    writeln!(to, "{}\n", verdict(&report.verdict))?;
    writeln!(to, "{}\n", question(report))?;
    if !report.ranks.is_empty() {
        writeln!(to, "Pipeline stages\n{}", ranks(report))?;
    }
    writeln!(to, "At the peak of the {} step\n{}", step_word(kind), categories(step))?;
    writeln!(to, "Largest tensors at that moment\n{}", top(step, timeline))?;
    writeln!(to, "Phases of the {} step\n{}", step_word(kind), phases(step))?;
    writeln!(to, "First and steady step\n{}", steps(report))?;
    writeln!(to, "{}", time(&report.steady.time, &report.scenario))?;
    let unverified = &report.gpu.unverified;
    list(to, "Not verified", unverified.iter().map(String::as_str))?;
    let notes = report.notes.iter().map(|note| &note.message);
    let others = notes.filter(|message| !unverified.contains(message));
    list(to, "Notes", others.map(String::as_str))
}

/// A heading with its lines, when there are any.
fn list<'a>(
    to: &mut dyn Write,
    heading: &str,
    lines: impl Iterator<Item = &'a str>,
) -> io::Result<()> {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        writeln!(to, "\n{heading}")?;
    }
    lines.try_for_each(|line| writeln!(to, "  {line}"))
}

/// The answer in a sentence or two.
fn verdict(verdict: &Verdict) -> String {
    let margin = Bytes::new(verdict.margin_bytes.unsigned_abs());
    let direction = if verdict.margin_bytes < 0 { "too much" } else { "to spare" };
    let word = match verdict.outcome {
        Outcome::Fits => "Fits",
        Outcome::DoesNotFit => "Does not fit",
        Outcome::TooClose => "Too close to call",
    };
    let limit = match verdict.limited_by {
        LimitedBy::Card => "on the card",
        LimitedBy::ProcessCap => "under the process's cap",
    };
    let mut text = format!(
        "{word}: {} ± {} {direction}. The {} step peaks at {} of {} {limit}, in {}.",
        gib(margin),
        gib(verdict.band_bytes),
        step_word(verdict.step),
        gib(verdict.device_peak_bytes),
        gib(verdict.limit_bytes),
        phase_words(verdict.phase),
    );
    if let Some(stage) = verdict.stage {
        text = [text, format!("Pipeline stage {stage} is the highest.")].join(" ");
    }
    if let Some(failed) = &verdict.out_of_memory {
        let failure = format!(
            "Out of memory in {} of the {} step: {} asks for {}.",
            phase_words(failed.phase),
            step_word(failed.step),
            failed.what,
            size(failed.requested_bytes),
        );
        text = [text, failure].join("\n");
    }
    text
}

/// Every stage at its highest point; the highest decides, the shown one is detailed below.
fn ranks(report: &Report) -> Table<7> {
    let mut table = Table::new([
        (Side::Right, "stage"),
        (Side::Right, "allocated"),
        (Side::Left, ""),
        (Side::Right, "in flight"),
        (Side::Left, "step"),
        (Side::Left, "peak in"),
        (Side::Left, ""),
    ]);
    for rank in &report.ranks {
        let highest = (report.verdict.stage == Some(rank.stage)).then_some("highest");
        let shown = (report.scenario.parallel.stage == rank.stage).then_some("shown");
        let marks = [highest, shown].into_iter().flatten().collect::<Vec<_>>().join(", ");
        table.row([
            rank.stage.to_string(),
            gib(rank.peak_allocated_bytes),
            outcome_words(rank.outcome).to_owned(),
            rank.in_flight.to_string(),
            step_word(rank.step).to_owned(),
            format!("{} {}: {}", phase_word(rank.phase), rank.micro_batch + 1, rank.what),
            marks,
        ]);
    }
    table
}

const fn outcome_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Fits => "fits",
        Outcome::DoesNotFit => "does not fit",
        Outcome::TooClose => "too close",
    }
}

/// What was asked, on two lines.
fn question(report: &Report) -> String {
    let Scenario { hardware, parallel, workload, precision, optimizer, .. } = &report.scenario;
    let Scenario { checkpointing, adapter, stack, .. } = &report.scenario;
    let mut choices = Vec::from([
        word(precision),
        format!("{} {}", word(&optimizer.name), word(&optimizer.implementation)),
        format!("checkpointing {}", word(checkpointing)),
        format!("attention {}", word(&stack.attention)),
        format!("loss {}", word(&stack.loss)),
    ]);
    if let Some(adapter) = adapter {
        let targets = adapter.targets.join(", ");
        choices.push(format!("{} rank {} on {targets}", word(&adapter.kind), adapter.rank));
    }
    if 1 < hardware.count {
        choices.push(format!("one of {} ranks", hardware.count));
    }
    if 1 < parallel.tensor {
        choices.push(format!("tensor parallel {}", parallel.tensor));
    }
    if 1 < parallel.pipeline {
        choices.push(format!("pipeline stage {} of {}", parallel.stage, parallel.pipeline));
    }
    if let Some(data) = &parallel.data {
        choices.push(word(data));
    }
    if optimizer.clip_grad_norm {
        choices.push("clipping".to_owned());
    }
    if !stack.alloc_conf.is_empty() {
        choices.push(stack.alloc_conf.clone());
    }
    let trained = match report.model.trainable_parameters {
        Some(n) if n < report.model.parameters => format!(", {} trained", thousands(n)),
        _ => String::new(),
    };
    let accumulated = match workload.grad_accum {
        1 => String::new(),
        n => format!(" × {n} micro-batches"),
    };
    let target = match workload.target_len {
        0 => String::new(),
        n => format!(" to {}", thousands(n)),
    };
    format!(
        "{} ({} parameters{trained}) on {} ({})\n{} × {}{target} tokens{accumulated}, {}",
        report.model.name,
        thousands(report.model.parameters),
        report.gpu.name,
        gib(report.gpu.capacity_bytes),
        workload.micro_batch,
        thousands(workload.seq_len),
        choices.join(", "),
    )
}

/// The word that files use for a choice.
fn word(choice: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(choice).unwrap_or_default();
    value.as_str().unwrap_or("?").to_owned()
}

fn categories(step: &StepReport) -> Table<3> {
    let total: Bytes = step.categories.iter().map(|row| row.bytes).sum();
    let mut table =
        Table::new([(Side::Left, "category"), (Side::Right, "size"), (Side::Right, "share")])
            .indented(2);
    let share = |bytes: Bytes| percent(bytes.as_f64() / total.as_f64().max(1.0));
    for row in step.categories.iter().filter(|row| row.bytes != Bytes::ZERO) {
        table.row([category_words(row.category).to_owned(), size(row.bytes), share(row.bytes)]);
    }
    table.row(["total".to_owned(), size(total), share(total)]);
    table
}

/// The largest tensors alive at the peak.
fn top(step: &StepReport, timeline: &Timeline) -> Table<4> {
    let tensors = &timeline.tensors;
    let peak = step.peak_event;
    let is_alive = |&index: &usize| {
        let (born, freed) = (tensors.born[index], tensors.freed[index]);
        (born == BEFORE || born <= peak) && (freed == NEVER || peak < freed)
    };
    let mut alive: Vec<usize> = (0..tensors.len()).filter(is_alive).collect();
    alive.sort_by_key(|&index| (std::cmp::Reverse(tensors.bytes[index]), index));
    let label = |label: u32| {
        usize::try_from(label)
            .ok()
            .and_then(|at| timeline.labels.get(at))
            .map_or("", String::as_str)
    };
    let mut table = Table::new([
        (Side::Right, "size"),
        (Side::Left, "tensor"),
        (Side::Left, "made by"),
        (Side::Left, "category"),
    ])
    .indented(2);
    for &index in alive.iter().take(TOP) {
        let block = label(tensors.block[index]);
        let place = match tensors.layer[index] {
            NO_LAYER => block.to_owned(),
            layer => format!("layer {layer} {block}"),
        };
        let category = Category::ALL.get(usize::from(tensors.category[index]));
        table.row([
            size(Bytes::new(tensors.bytes[index])),
            label(tensors.name[index]).to_owned(),
            format!("{place} · {}", label(tensors.primitive[index])),
            category.map_or("", |category| category_words(*category)).to_owned(),
        ]);
    }
    table
}

/// Live bytes by phase. Times are not here: the host enters a phase while the device is still at
/// work on the one before, so that they overlap.
fn phases(step: &StepReport) -> Table<4> {
    let mut table = Table::new([
        (Side::Left, "phase"),
        (Side::Right, "start"),
        (Side::Right, "peak"),
        (Side::Right, "end"),
    ])
    .indented(2);
    let repeats = step.phases.iter().any(|phase| 0 < phase.micro_batch);
    for phase in &step.phases {
        let name = match phase_word(phase.kind) {
            word if repeats => format!("{word} {}", phase.micro_batch + 1),
            word => word.to_owned(),
        };
        table.row([name, size(phase.start_bytes), size(phase.peak_bytes), size(phase.end_bytes)]);
    }
    table
}

fn steps(report: &Report) -> Table<3> {
    let mut table =
        Table::new([(Side::Left, ""), (Side::Right, "first"), (Side::Right, "steady")]).indented(2);
    let mut row = |name: &str, of: &dyn Fn(&StepReport) -> String| {
        table.row([name.to_owned(), of(&report.first), of(&report.steady)]);
    };
    row("before the step, live", &|step| size(step.base_bytes));
    row("peak of live bytes", &|step| size(step.peak_requested_bytes));
    row("peak in", &|step| phase_word(step.peak_phase).to_owned());
    row("peak allocated", &|step| size(step.peak_allocated_bytes));
    row("peak reserved", &|step| size(step.peak_reserved_bytes));
    row("allocations", &|step| thousands(step.allocations));
    row("time", &|step| seconds(step.time.step_s));
    table
}

fn time(time: &TimeReport, scenario: &Scenario) -> String {
    let mode = match time.mode {
        TimeMode::Nominal => "nominal: datasheet rates, general efficiencies",
        TimeMode::Measured => "from rates measured on this GPU model",
    };
    let mfu = time.mfu.map(|mfu| format!(", MFU {}", percent(mfu))).unwrap_or_default();
    let host = if time.host_bound { " The host's launches set the pace." } else { "" };
    format!(
        "Steady step {} ({mode})\n  forward {}, backward {}, optimizer {}; the device waits {}.{host}\
         \n  {} tokens/s for {} tokens a step{mfu}",
        seconds(time.step_s),
        seconds(time.forward_s),
        seconds(time.backward_s),
        seconds(time.optimizer_s),
        seconds(time.device_idle_s),
        rounded(time.tokens_per_s),
        thousands(tokens(scenario)),
    )
}

fn tokens(scenario: &Scenario) -> u64 {
    let workload = &scenario.workload;
    workload.micro_batch.saturating_mul(workload.seq_len).saturating_mul(workload.grad_accum)
}

const fn step_word(step: StepKind) -> &'static str {
    match step {
        StepKind::First => "first",
        StepKind::Steady => "steady",
    }
}

const fn phase_word(phase: PhaseKind) -> &'static str {
    match phase {
        PhaseKind::Build => "build",
        PhaseKind::Forward => "forward",
        PhaseKind::Loss => "loss",
        PhaseKind::Backward => "backward",
        PhaseKind::Clip => "clipping",
        PhaseKind::Optimizer => "optimizer",
        PhaseKind::ZeroGrad => "zero_grad",
    }
}

const fn phase_words(phase: PhaseKind) -> &'static str {
    match phase {
        PhaseKind::Build => "the model's construction",
        PhaseKind::Forward => "the forward pass",
        PhaseKind::Loss => "the loss",
        PhaseKind::Backward => "the backward pass",
        PhaseKind::Clip => "gradient clipping",
        PhaseKind::Optimizer => "the optimizer's update",
        PhaseKind::ZeroGrad => "zero_grad",
    }
}

const fn category_words(category: Category) -> &'static str {
    match category {
        Category::OutsidePool => "outside the pool",
        Category::Weights => "weights",
        Category::OptimizerStates => "optimizer states",
        Category::Gradients => "gradients",
        Category::Inputs => "inputs",
        Category::Activations => "activations",
        Category::Logits => "logits and loss",
        Category::Temporaries => "temporaries",
        Category::Slack => "allocator slack",
    }
}
