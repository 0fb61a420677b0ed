//! The figures behind the report, each with its formula, the values put in, and its source.

use crate::scenario::{Projection, Task, ValidScenario};
use crate::tape::Adapter;
use crate::tensor::DType;
use crate::wire::parallel::DataParallel;
use crate::wire::report::{Figure, Report};
use crate::wire::scenario::{Implementation, Optimizer, OptimizerName, Precision};
use crate::wire::timeline::Category;

const INTERPRETER: &str =
    "interpreted primitive by primitive; rules of PyTorch 2.11 and transformers 5.17";
const ALLOCATOR: &str =
    "replay of the caching allocator, PyTorch 2.11 c10/cuda/CUDACachingAllocator.cpp";

/// The figures of a report, in the order in which a reader would ask.
pub fn figures(scenario: &ValidScenario, report: &Report) -> Vec<Figure> {
    let mut figures = Vec::from([parameters(scenario, report)]);
    figures.extend(trainable_parameters(scenario, report));
    figures.extend([
        weights(scenario, report),
        gradients(scenario, report),
        optimizer_states(scenario, report),
        logits(scenario),
    ]);
    figures.extend(peaks(scenario, report));
    figures.extend(times(report));
    figures
}

fn figure(id: &str, value: f64, unit: &str, texts: [String; 3]) -> Figure {
    let [formula, substituted, source] = texts;
    Figure { id: id.to_owned(), value, unit: unit.to_owned(), formula, substituted, source }
}

#[expect(clippy::cast_precision_loss, reason = "shown to people, exact below 2^53")]
fn number(value: u64) -> f64 {
    value as f64
}

fn parameters(scenario: &ValidScenario, report: &Report) -> Figure {
    let [mut formula, mut substituted] = scenario.family().parameters_formula();
    if scenario.document().adapter.is_some() {
        formula.push_str(" + N_trainable");
        substituted = format!("{substituted}, N_trainable={}", trainable(report));
    }
    let library = scenario.family().library();
    let source = format!("{} in {library}; a tied weight counts once", report.model.class);
    let value = number(report.model.parameters);
    figure("parameters", value, "1", [formula, substituted, source])
}

/// How many of some parameters the rank keeps on its GPU, and the letter that says so.
fn kept(scenario: &ValidScenario, report: &Report, all: u64) -> (u64, &'static str) {
    let parallel = &scenario.document().parallel;
    let zero3 = parallel.data == Some(DataParallel::Zero3) && parallel.zero.offload_param;
    let fsdp = parallel.data == Some(DataParallel::Fsdp2) && parallel.fsdp.cpu_offload;
    if fsdp || zero3 {
        return (0, "N_GPU");
    }
    report.model.rank_parameters.map_or((all, "N"), |n| (n, "N_rank"))
}

/// Parameters that get a gradient.
fn trainable(report: &Report) -> u64 {
    report.model.trainable_parameters.unwrap_or(report.model.parameters)
}

/// Of a model with an adapter; elsewhere all are trained.
fn trainable_parameters(scenario: &ValidScenario, report: &Report) -> Option<Figure> {
    let adapter = scenario.document().adapter.as_ref()?;
    let targeted = |projection: &Projection| adapter.targets.iter().any(|t| t == projection.name);
    let terms: Vec<String> = scenario
        .family()
        .projections()
        .into_iter()
        .filter(targeted)
        .map(|Projection { inputs, outputs, count, .. }| {
            format!("{count} · {} · ({inputs} + {outputs})", adapter.rank)
        })
        .collect();
    let texts = [
        "Σ over targeted modules of r · (inputs + outputs)".to_owned(),
        terms.join(" + "),
        "LoraLayer.update_layer in peft 0.21 (tuners/lora/layer.py): lora_A and lora_B".to_owned(),
    ];
    Some(figure("trainable_parameters", number(trainable(report)), "1", texts))
}

/// Element type of what is trained.
fn trainable_dtype(scenario: &ValidScenario) -> DType {
    let weights = weight_dtype(scenario);
    match &scenario.document().adapter {
        Some(adapter) => Adapter::dtype(adapter.autocast, weights),
        None => weights,
    }
}

pub(super) fn weight_dtype(scenario: &ValidScenario) -> DType {
    match scenario.document().precision {
        Precision::Bf16 => DType::BF16,
        Precision::Fp16 => DType::F16,
        Precision::Fp32 | Precision::AmpBf16 | Precision::AmpFp16 => DType::F32,
    }
}

fn weights(scenario: &ValidScenario, report: &Report) -> Figure {
    let (n, size) = (report.model.parameters, weight_dtype(scenario).bytes());
    let (on_rank, letter) = kept(scenario, report, n);
    let buffers = report.model.buffer_bytes.get();
    if scenario.document().adapter.is_some() {
        let (added, wide) = (trainable(report), trainable_dtype(scenario).bytes());
        let frozen = n - added;
        let texts = [
            "N_frozen · bytes per weight + N_trainable · bytes per trained weight + buffers"
                .to_owned(),
            format!("{frozen} · {size} B + {added} · {wide} B + {buffers} B"),
            format!("{INTERPRETER}; cast_adapter_dtype in peft 0.21 makes the trained ones fp32"),
        ];
        return figure("weights", number(frozen * size + added * wide + buffers), "B", texts);
    }
    let texts = [
        format!("{letter} · bytes per weight + buffers"),
        format!("{on_rank} · {size} B + {buffers} B"),
        INTERPRETER.to_owned(),
    ];
    figure("weights", number(on_rank * size + buffers), "B", texts)
}

fn gradients(scenario: &ValidScenario, report: &Report) -> Figure {
    let (n, letter) = kept(scenario, report, trainable(report));
    let size = trainable_dtype(scenario).bytes();
    if let Some(stage) = zero_stage(scenario) {
        return zero_gradients(scenario, n, letter, stage);
    }
    let texts = [
        format!("{letter} · bytes per gradient, from backward to zero_grad"),
        format!("{n} · {size} B"),
        "AccumulateGrad keeps the parameter's dtype (torch/csrc/autograd/functions/accumulate_grad.h)"
            .to_owned(),
    ];
    figure("gradients", number(n * size), "B", texts)
}

fn optimizer_states(scenario: &ValidScenario, report: &Report) -> Figure {
    let optimizer = &scenario.document().optimizer;
    let (n, letter) = kept(scenario, report, trainable(report));
    let size = trainable_dtype(scenario).bytes();
    if zero_stage(scenario).is_some() {
        return zero_states(scenario, report);
    }
    let states = states_of(optimizer);
    let fused =
        optimizer.implementation == Implementation::Fused && optimizer.name == OptimizerName::Adamw;
    let mut formula = states.formula.replacen('N', letter, 1);
    if fused {
        formula.push_str(" + 4 B per tensor for the step count");
    }
    let value = report
        .steady
        .categories
        .iter()
        .find(|row| row.category == Category::OptimizerStates)
        .map_or(0.0, |row| row.bytes.as_f64());
    let substituted = match states.copies {
        Some(copies) => format!("{n} · {copies} · {size} B"),
        None => format!("{letter} = {n}, {size} B"),
    };
    figure("optimizer_states", value, "B", [formula, substituted, states.source.to_owned()])
}

fn zero_stage(scenario: &ValidScenario) -> Option<u8> {
    scenario.document().parallel.data.and_then(DataParallel::zero_stage)
}

const ZERO: &str = "deepspeed 0.19.8, runtime/zero/stage_1_and_2.py and stage3.py";

/// Gradients as they arrive: whole until they are reduced, in the weights' type.
fn zero_gradients(scenario: &ValidScenario, n: u64, letter: &str, stage: u8) -> Figure {
    let size = weight_dtype(scenario).bytes();
    let ranks = scenario.document().hardware.count;
    let (kept, letter) = match stage {
        2 => (n.div_ceil(ranks), "N / ranks"),
        _ => (n, letter),
    };
    let texts = [
        format!("{letter} · bytes per gradient, after they are reduced"),
        format!("{kept} · {size} B"),
        ZERO.to_owned(),
    ];
    figure("gradients", number(kept * size), "B", texts)
}

/// fp32 weights and the optimizer's states of a rank's partition.
fn zero_states(scenario: &ValidScenario, report: &Report) -> Figure {
    let copies = 1 + states_of(&scenario.document().optimizer).copies.unwrap_or(0);
    let steady = &report.steady;
    let row = steady.categories.iter().find(|row| row.category == Category::OptimizerStates);
    let value = row.map_or(0.0, |row| row.bytes.as_f64());
    let ranks = scenario.document().hardware.count;
    let texts = [
        "N / ranks · (fp32 weights + states) · 4 B; none in host memory".to_owned(),
        format!("{} / {ranks} · {copies} · 4 B", trainable(report)),
        ZERO.to_owned(),
    ];
    figure("optimizer_states", value, "B", texts)
}

/// What an optimizer keeps.
struct Kept {
    formula: &'static str,
    /// States of a weight's size for each weight, where all weights have as many.
    copies: Option<u64>,
    source: &'static str,
}

fn states_of(optimizer: &Optimizer) -> Kept {
    const WHOLE: &str = "N · states · bytes per weight";
    let momentum = u64::from(optimizer.momentum.is_some_and(|momentum| 0.0 < momentum));
    let (formula, copies, source) = match optimizer.name {
        OptimizerName::Adamw => {
            (WHOLE, Some(2), "torch/optim/adam.py: exp_avg and exp_avg_sq, made at the first step")
        }
        OptimizerName::Sgd => {
            (WHOLE, Some(momentum), "torch/optim/sgd.py: momentum_buffer, made at the first step")
        }
        OptimizerName::Rmsprop => (
            WHOLE,
            Some(1 + momentum + u64::from(optimizer.centered)),
            "torch/optim/rmsprop.py: square_avg, with momentum momentum_buffer, centered grad_avg",
        ),
        OptimizerName::Lion => (WHOLE, Some(1), "lion-pytorch: exp_avg, made at the first step"),
        OptimizerName::Adafactor => (
            "Σ (rows + columns of a matrix, or a vector's elements) · bytes per weight",
            None,
            "torch/optim/_adafactor.py: row_var and col_var, or variance",
        ),
        OptimizerName::Muon => (
            "(matrices of the layers + 2 · the others) · bytes per weight",
            None,
            "torch/optim/_muon.py: momentum_buffer; torch/optim/adam.py: exp_avg and exp_avg_sq",
        ),
        OptimizerName::Adamw8bit => (
            "2 · N · (1 B + 4 B / 256) + 2 KiB of maps; tensors below 4096 weights 2 · 4 B a weight",
            None,
            "bitsandbytes, optim/optimizer.py: state1 and state2, absmax1 and absmax2",
        ),
    };
    Kept { formula, copies, source }
}

fn logits(scenario: &ValidScenario) -> Figure {
    let workload = &scenario.document().workload;
    let family = scenario.family();
    let vocab = family.vocab();
    if family.task() == Task::Classification {
        let texts = [
            "b · C · 4 B for the fp32 log-probabilities kept for backward".to_owned(),
            format!("{} · {vocab} · 4 B", workload.micro_batch),
            "ForSequenceClassificationLoss in transformers 5.17 (loss/loss_utils.py)".to_owned(),
        ];
        let bytes = workload.micro_batch * vocab * 4;
        return figure("log_probabilities", number(bytes), "B", texts);
    }
    let rows = workload.micro_batch * workload.label_len();
    let source = match family.task() {
        Task::CausalLm => {
            "ForCausalLMLoss in transformers 5.17 (loss/loss_utils.py): logits.float(), log_softmax"
        }
        _ => "CrossEntropyLoss in the class's forward, transformers 5.17",
    };
    let texts = [
        "b · s · V · 4 B for the fp32 log-probabilities kept for backward".to_owned(),
        format!("{} · {} · {vocab} · 4 B", workload.micro_batch, workload.label_len()),
        source.to_owned(),
    ];
    figure("log_probabilities", number(rows * vocab * 4), "B", texts)
}

fn peaks(scenario: &ValidScenario, report: &Report) -> [Figure; 4] {
    let steady = &report.steady;
    let verdict = &report.verdict;
    let outside = scenario.outside_pool();
    let used = scenario.document().hardware.already_used_bytes;
    let reserved = report.first.peak_reserved_bytes.max(steady.peak_reserved_bytes);
    [
        figure(
            "peak_requested",
            steady.peak_requested_bytes.as_f64(),
            "B",
            [
                "max over events of Σ bytes of live tensors".to_owned(),
                format!(
                    "{} allocations; peak at event {} in {}",
                    steady.allocations,
                    steady.peak_event,
                    steady.peak_phase.word()
                ),
                INTERPRETER.to_owned(),
            ],
        ),
        figure(
            "peak_reserved",
            reserved.as_f64(),
            "B",
            [
                "max over the process's history of Σ segments".to_owned(),
                "build, empty_cache, data, first step, steady steps".to_owned(),
                ALLOCATOR.to_owned(),
            ],
        ),
        figure(
            "outside_pool",
            outside.total().as_f64(),
            "B",
            [
                "driver + context + libraries".to_owned(),
                format!(
                    "{} B + {} B + {} B (± {} B)",
                    outside.driver.get(),
                    outside.context.get(),
                    outside.libraries.get(),
                    outside.band.get()
                ),
                outside.source.clone(),
            ],
        ),
        figure(
            "device_peak",
            verdict.device_peak_bytes.as_f64(),
            "B",
            [
                match verdict.stage {
                    Some(stage) => {
                        format!("reserved + outside the pool + already in use, on stage {stage}")
                    }
                    None => "reserved + outside the pool + already in use".to_owned(),
                },
                format!(
                    "{} B + {} B + {used} B",
                    verdict.device_peak_bytes.get() - outside.total().get() - used,
                    outside.total().get()
                ),
                "what the driver's tool shows".to_owned(),
            ],
        ),
    ]
}

fn times(report: &Report) -> [Figure; 1] {
    let time = &report.steady.time;
    let limit = if time.host_bound { "the host's launch rate" } else { "the device" };
    [figure(
        "step_time",
        time.step_s,
        "s",
        [
            "host clock issues operations, device clock runs them in order".to_owned(),
            format!("limited by {limit}; the device waits {:.6} s", time.device_idle_s),
            match time.mode {
                crate::wire::report::TimeMode::Nominal => {
                    "nominal: datasheet rates and general efficiencies".to_owned()
                }
                crate::wire::report::TimeMode::Measured => {
                    "rates measured on this GPU model by micro-benchmarks".to_owned()
                }
            },
        ],
    )]
}
