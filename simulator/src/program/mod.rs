//! A training process: construction, first step, steady step, as records of the tape.

mod adapter;
mod compiled;
mod layout;
mod loss;
mod optimizer;
mod scaler;

pub use layout::zero_hooks;

use crate::blocks::{Forwarded, Network, Style, register};
use crate::engine;
use crate::scenario::{Data, Family, Task, ValidScenario};
use crate::tape::{Block, Device, Param, ParamId, Prim, Recorded, Shard, StorageId, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::parallel::DataParallel;
use crate::wire::scenario::{Checkpointing, Precision, Scenario, Workload};
use crate::wire::timeline::{Category, PhaseKind};

use scaler::Scaler;

/// Resident threads per multiprocessor on NVIDIA data-centre GPUs since compute capability 7.0.
const THREADS_PER_SM: u64 = 2048;
/// The same on consumer GPUs (compute capability 8.6, 8.9, 12.x).
const THREADS_PER_SM_CONSUMER: u64 = 1536;

/// A run of the tape, with where its first storages come from.
#[derive(Debug)]
pub struct Run {
    /// What was recorded.
    pub record: Recorded,
    /// For each storage that existed before, its number in the run before.
    pub origin: Vec<u32>,
}

/// A training process on one GPU.
#[derive(Debug)]
pub struct Process<'a> {
    scenario: &'a Scenario,
    family: &'a dyn Family,
    tape: Tape,
    model: Box<dyn Network>,
    /// Data and labels.
    inputs: [StorageId; 2],
    scaler: Option<Scaler>,
    /// What outlives autocast: a result that Python's frame holds until it returns.
    late: Option<Tensor>,
    /// Updates that the gradient scaler still skips.
    skips: u64,
    /// What the training loop holds through backward.
    returned: Vec<Tensor>,
    /// What runs instead of the model, where it was compiled.
    plan: Option<compiled::Plan>,
    origin: Vec<u32>,
}

impl<'a> Process<'a> {
    /// Builds the model and the data; returns what that allocated.
    pub fn build(scenario: &'a ValidScenario) -> (Self, Run) {
        let (mut process, run) = Self::construct(scenario);
        process.plan = scenario.document().stack.compile.then(|| compiled::compile(scenario));
        (process, run)
    }

    fn construct(scenario: &'a ValidScenario) -> (Self, Run) {
        let document = scenario.document();
        let mut tape = Tape::new(device(scenario));
        tape.phase(PhaseKind::Build, 0);
        let style = Style {
            attention: document.stack.attention,
            checkpointing: document.checkpointing,
            channels_last: document.stack.channels_last,
        };
        let dtype = layout::before_model(&mut tape, document);
        let model = register(&mut tape, scenario.architecture(), dtype, style);
        let family = scenario.family();
        construct_rest(&mut tape, family, model.as_ref());
        if let Some(adapter) = &document.adapter {
            adapter::attach(&mut tape, family, adapter);
            // peft's `_prepare_model_for_gradient_checkpointing`: nothing would be recomputed
            // where no input of a layer requires a gradient.
            if document.checkpointing != Checkpointing::None
                && let Some(table) = model.input_embedding()
            {
                tape.param_mut(table).hooked = true;
            }
        }
        let tied = family.tied().then(|| model.lm_head());
        layout::after_model(&mut tape, document, tied);
        let inputs = inputs(family, document).map(|(module, shape, dtype)| {
            tape.enter(Block::Data, module);
            let tensor = tape.helper(shape, dtype, Prim::Input);
            tape.categorise(tensor.storage, Category::Inputs);
            tensor.storage
        });
        let scaler = (document.precision == Precision::AmpFp16).then(Scaler::default);
        let origin = Vec::new();
        let mut process = Self {
            scenario: document,
            family,
            tape,
            model,
            inputs,
            scaler,
            late: None,
            skips: 0,
            returned: Vec::new(),
            plan: None,
            origin,
        };
        let run = process.take_run();
        (process, run)
    }

    /// Lets the gradient scaler skip so many updates, as when gradients overflow at its first scales.
    pub const fn skip_updates(&mut self, updates: u64) {
        self.skips = updates;
    }

    /// Runs one optimizer step.
    pub fn step(&mut self) -> Run {
        for micro_batch in 0..u32::try_from(self.scenario.workload.grad_accum).unwrap_or(u32::MAX) {
            if let Some(plan) = self.plan.take() {
                self.compiled_micro_batch(&plan, micro_batch);
                self.plan = Some(plan);
                continue;
            }
            let loss = self.forward(micro_batch);
            self.backward(micro_batch, loss);
        }
        self.update();
        self.tape.hook(|hooks, tape| hooks.after_step(tape));
        self.take_run()
    }

    /// Names of the parameters, by their ids.
    pub fn parameter_names(&self) -> Vec<String> {
        (0..self.tape.n_params())
            .map(|index| self.tape.param(ParamId::new(index)).name.clone())
            .collect()
    }

    /// Each parameter's name, its elements, and those of them that this rank keeps.
    pub fn parameter_sizes(&self) -> Vec<(String, u64, u64)> {
        let param = |index| self.tape.param(ParamId::new(index));
        (0..self.tape.n_params())
            .map(param)
            .map(|param| (param.name.clone(), param.elements(), param.local_elements()))
            .collect()
    }

    /// Parameters, a tied one counted once.
    pub fn parameters(&self) -> u64 {
        self.elements(|_| true)
    }

    /// Parameters that get a gradient.
    pub fn trainable_parameters(&self) -> u64 {
        self.elements(|param| param.trainable && !param.unoptimized)
    }

    /// Parameters that this rank keeps.
    pub fn local_parameters(&self) -> u64 {
        (0..self.tape.n_params())
            .map(|index| self.tape.param(ParamId::new(index)).local_elements())
            .sum()
    }

    fn elements(&self, counts: impl Fn(&Param) -> bool) -> u64 {
        (0..self.tape.n_params())
            .map(|index| self.tape.param(ParamId::new(index)))
            .filter(|param| counts(param))
            .map(Param::elements)
            .sum()
    }

    fn forward(&mut self, micro_batch: u32) -> Tensor {
        self.tape.phase(PhaseKind::Forward, micro_batch);
        self.tape.set_grad_enabled(true);
        self.tape.set_autocast(autocast_dtype(self.scenario.precision));
        let [data, labels] = self.inputs();
        self.tape.hook(|hooks, tape| hooks.before_model(tape));
        self.tape.watch_layers(true);
        self.tape.offload_saved(self.scenario.stack.activation_offload);
        let Forwarded { output, held } = self.model.forward_to(&mut self.tape, &data, &labels);
        self.tape.watch_layers(false);
        let loss = self.loss(output, &labels, micro_batch);
        self.tape.offload_saved(false);
        for tensor in held.into_iter().chain([data, labels]) {
            self.tape.release(tensor);
        }
        self.tape.end_autocast();
        if let Some(late) = self.late.take() {
            self.tape.release(late);
        }
        loss
    }

    fn backward(&mut self, micro_batch: u32, loss: Tensor) {
        self.tape.phase(PhaseKind::Backward, micro_batch);
        let stage = self.scenario.parallel.data.and_then(DataParallel::zero_stage);
        let scaled = match &mut self.scaler {
            Some(scaler) => scaler.scale(&mut self.tape, &loss),
            None if stage.is_some() => scaler::scale_for_engine(&mut self.tape, &loss),
            None => self.tape.share(&loss),
        };
        engine::backward(&mut self.tape, &scaled, self.model.as_ref());
        self.tape.hook(|hooks, tape| hooks.backward_returned(tape));
        self.tape.release(scaled);
        // A tensor lets go of its graph before its bytes (`TensorImpl::release_resources`).
        self.tape.release_graph();
        self.tape.forget_offloaded();
        self.tape.release(loss);
        for tensor in core::mem::take(&mut self.returned) {
            self.tape.release(tensor);
        }
    }

    /// Handles to data and labels.
    fn inputs(&mut self) -> [Tensor; 2] {
        let [(_, data, dtype), (_, labels, label_dtype)] = inputs(self.family, self.scenario);
        let [of_data, of_labels] = self.inputs;
        [self.tape.handle(of_data, data, dtype), self.tape.handle(of_labels, labels, label_dtype)]
    }

    fn take_run(&mut self) -> Run {
        let mut held = self.inputs.to_vec();
        held.extend(self.scaler.iter().flat_map(Scaler::storages));
        let (record, next_origin) = self.tape.take_record(&mut held);
        self.inputs = [held[0], held[1]];
        if let Some(scaler) = &mut self.scaler {
            scaler.renumber(&held[2..]);
        }
        Run { record, origin: core::mem::replace(&mut self.origin, next_origin) }
    }
}

/// Data and labels of a micro-batch: name, shape and element type.
fn inputs(family: &dyn Family, scenario: &Scenario) -> [(&'static str, Shape, DType); 2] {
    let workload = &scenario.workload;
    let Workload { micro_batch, seq_len, .. } = *workload;
    let tokens = Shape::new([micro_batch, seq_len]);
    let data = match family.data() {
        Data::Tokens => ("input_ids", tokens, DType::I64),
        Data::Images(side) => {
            let pixels = Shape::new([micro_batch, 3, side, side]);
            ("pixel_values", pixels, weight_dtype(scenario.precision))
        }
    };
    let labels = match family.task() {
        Task::CausalLm | Task::TokenLabels => Shape::new([micro_batch, workload.label_len()]),
        Task::Classification | Task::ClassificationInF32 => Shape::new([micro_batch]),
    };
    [data, ("labels", labels, DType::I64)]
}

/// What construction allocates after the parameters: rotary buffers (the inverse frequencies and their
/// copy, fp32), and the output projection of a model that then ties it to its embedding.
fn construct_rest(tape: &mut Tape, family: &dyn Family, model: &dyn Network) {
    tape.enter(Block::Rotary, "inv_freq");
    for bytes in family.buffers() {
        tape.new_buffer("", bytes);
    }
    if family.tied() && model.makes_head_last() {
        tape.enter(Block::LmHead, "lm_head");
        let embedding = tape.param(model.lm_head());
        let bytes = match embedding.shard {
            Some(Shard { storage: StorageId::NONE, .. }) => 0,
            _ => embedding.local_elements() * embedding.local_dtype().bytes(),
        };
        tape.scratch(bytes, Prim::Parameter);
    }
}

/// Element type of the parameters.
const fn weight_dtype(precision: Precision) -> DType {
    match precision {
        Precision::Bf16 => DType::BF16,
        Precision::Fp16 => DType::F16,
        Precision::Fp32 | Precision::AmpBf16 | Precision::AmpFp16 => DType::F32,
    }
}

const fn autocast_dtype(precision: Precision) -> Option<DType> {
    match precision {
        Precision::AmpBf16 => Some(DType::BF16),
        Precision::AmpFp16 => Some(DType::F16),
        Precision::Bf16 | Precision::Fp16 | Precision::Fp32 => None,
    }
}

/// What a card without a CUDA capability is taken for: PyTorch's kernels for AMD's cards (`AOTriton`)
/// take what those of an A100 do, grouped heads included (`sdp_utils.cpp`, `USE_ROCM`).
const OTHER_VENDOR: (u32, u32) = (8, 0);

/// The machine of a scenario.
pub(crate) fn device(scenario: &ValidScenario) -> Device {
    let gpu = scenario.gpu();
    let capability = gpu
        .compute_capability
        .as_deref()
        .and_then(|text| text.split_once('.'))
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
        .unwrap_or(OTHER_VENDOR);
    let consumer = matches!(capability, (8, 6 | 9) | (12, _));
    let threads_per_sm = if consumer { THREADS_PER_SM_CONSUMER } else { THREADS_PER_SM };
    Device { sm_count: gpu.sm_count.unwrap_or(100), threads_per_sm, capability }
}
