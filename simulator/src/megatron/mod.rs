//! A training process of Megatron-core: one rank of a job, over its own model, buffers, schedule and
//! optimizer.
//!
//! Source: megatron-core 0.19.2 with its "local" layer specification, without Transformer Engine and
//! Apex, or with Transformer Engine's layers and optimizer.

mod attention;
mod buffers;
mod chunk;
mod cut;
mod data;
mod deepspeed;
mod interleaved;
mod layer;
mod moe;
mod optimizer;
mod pipeline;
mod rank;
mod run;
#[cfg(test)]
mod tests;

use crate::engine::{Recompute, Rerun};
use crate::program::{Run, device};
use crate::scenario::{Family, MegatronGpt, ValidScenario};
use crate::tape::{Block, ParamId, Part, Prim, SlotKind, StorageId, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::timeline::PhaseKind;

use attention::{core_attention, leaves};
use buffers::Buffer;
use chunk::{Chunk, Context};
pub use cut::{Order, Stage};
use data::Data;
use deepspeed::DeepSpeed;
use optimizer::{Optimizer, grad_norm};
use pipeline::Alike;
use rank::Rank;

/// The model chunks of a rank.
#[derive(Debug)]
struct Model {
    config: MegatronGpt,
    rank: Rank,
    chunks: Vec<Chunk>,
}

/// One rank of a job.
#[derive(Debug)]
pub struct Job {
    /// Of the whole model.
    parameters: u64,
    tape: Tape,
    model: Model,
    clips: bool,
    deepspeed: Option<DeepSpeed>,
    optimizers: Vec<Optimizer>,
    /// Gradient and weight buffers.
    buffers: Vec<StorageId>,
    /// What the last micro-batch of each chunk came in with, and its gradient: the module keeps it.
    inputs: Vec<[StorageId; 2]>,
    /// The scale of experts' auxiliary losses.
    auxiliary_scale: StorageId,
    /// Iterators over the step's data, one a chunk.
    data: Vec<Data>,
    /// Gradients that sequence-parallel ranks sum in one flat tensor.
    alike: Alike,
    origin: Vec<u32>,
}

impl Job {
    /// Builds model, buffers and optimizer; returns what that allocated.
    ///
    /// # Panics
    ///
    /// When the scenario's model is not Megatron-core's: validation holds it.
    pub fn build(scenario: &ValidScenario) -> (Self, Run) {
        let config = scenario.megatron().expect("the scenario is Megatron-core's").clone();
        Self::of_rank(scenario, config, Rank::of(scenario))
    }

    fn of_rank(scenario: &ValidScenario, config: MegatronGpt, rank: Rank) -> (Self, Run) {
        let mut tape = Tape::new(device(scenario));
        tape.phase(PhaseKind::Build, 0);
        let mut chunks = Vec::new();
        let mut owned = Vec::new();
        for index in 0..rank.chunks {
            let before = tape.n_params();
            chunks.push(Chunk::register(&mut tape, &config, &rank, index));
            owned.push((before..tape.n_params()).map(ParamId::new).collect::<Vec<_>>());
        }
        let mut all = Vec::new();
        let mut buffers = Vec::new();
        let mut engine = None;
        if rank.deepspeed {
            engine = DeepSpeed::new(&mut tape, scenario, &rank);
            // Nothing is left to Megatron's buffers and optimizers.
            owned.clear();
        }
        for (chunk, params) in chunks.iter().zip(&owned) {
            let shared = chunk.shared_embedding().filter(|_| config.tied && 1 < rank.pipeline);
            for buffer in chunk_buffers(&tape, &rank, params, shared) {
                buffers.extend(buffer.1.allocate(&mut tape, rank.distributed_optimizer));
                all.push(buffer);
            }
        }
        let fused = config.engine.is_some();
        let optimizers = if rank.deepspeed {
            Vec::new()
        } else {
            optimizers(&mut tape, &rank, &owned, &all, fused)
        };
        let clips = scenario.document().optimizer.clip_grad_norm;
        let alike = Alike::of(&tape);
        let inputs = vec![[StorageId::NONE; 2]; chunks.len()];
        let origin = Vec::new();
        let parameters = u64::try_from(config.parameters()).unwrap_or(u64::MAX);
        let model = Model { config, rank, chunks };
        let mut job = Self {
            parameters,
            tape,
            model,
            clips,
            deepspeed: engine,
            optimizers,
            buffers,
            inputs,
            auxiliary_scale: StorageId::NONE,
            data: Vec::new(),
            alike,
            origin,
        };
        let run = job.take_run();
        (job, run)
    }

    /// Runs one optimizer step.
    pub fn step(&mut self) -> Run {
        self.forward_backward();
        self.update();
        self.end_data();
        self.take_run()
    }

    /// What follows the last backward.
    fn update(&mut self) {
        if let Some(engine) = &mut self.deepspeed {
            engine.step(&mut self.tape);
        } else {
            self.clip_and_update();
        }
    }

    /// Megatron's own optimizers.
    fn clip_and_update(&mut self) {
        if self.clips {
            let copy = self.copied_embedding();
            grad_norm(&mut self.tape, &self.optimizers, copy);
            for optimizer in &self.optimizers {
                optimizer.clip(&mut self.tape);
            }
        }
        self.tape.phase(PhaseKind::Optimizer, 0);
        for optimizer in &mut self.optimizers {
            optimizer.step(&mut self.tape);
        }
    }

    /// The step's iterators go.
    fn end_data(&mut self) {
        self.tape.phase(PhaseKind::ZeroGrad, 0);
        self.tape.slot(SlotKind::End, 0, 0);
        for data in core::mem::take(&mut self.data) {
            data.end(&mut self.tape);
        }
    }

    /// The last stage's copy of the embedding, which the first stage counts.
    fn copied_embedding(&self) -> Option<ParamId> {
        let Model { config, rank, chunks } = &self.model;
        let copied = config.tied && 1 < rank.pipeline;
        let last = chunks.last().filter(|chunk| copied && rank.is_last(chunk.index));
        last.and_then(Chunk::shared_embedding)
    }

    /// Names of the parameters, by their ids.
    pub fn parameter_names(&self) -> Vec<String> {
        (0..self.tape.n_params())
            .map(|index| self.tape.param(ParamId::new(index)).name.clone())
            .collect()
    }

    /// Parameters of the whole model, a tied one counted once.
    pub const fn parameters(&self) -> u64 {
        self.parameters
    }

    /// Parameters of this rank.
    pub fn local_parameters(&self) -> u64 {
        (0..self.tape.n_params())
            .map(|index| self.tape.param(ParamId::new(index)).shape.elements())
            .sum()
    }

    fn take_run(&mut self) -> Run {
        let mut held: Vec<&mut StorageId> = self.buffers.iter_mut().collect();
        held.extend(self.optimizers.iter_mut().flat_map(|optimizer| &mut optimizer.storages));
        held.extend(self.model.chunks.iter_mut().flat_map(|chunk| &mut chunk.frequencies));
        held.extend(self.inputs.as_flattened_mut());
        held.push(&mut self.auxiliary_scale);
        held.extend(self.deepspeed.iter_mut().flat_map(DeepSpeed::storages));
        let mut ids: Vec<StorageId> = held.iter().map(|id| **id).collect();
        let (record, next_origin) = self.tape.take_record(&mut ids);
        for (id, renumbered) in held.into_iter().zip(ids) {
            *id = renumbered;
        }
        Run { record, origin: core::mem::replace(&mut self.origin, next_origin) }
    }
}

/// A chunk's buffers: of dense parameters, and of experts.
fn chunk_buffers(
    tape: &Tape,
    rank: &Rank,
    params: &[ParamId],
    shared: Option<ParamId>,
) -> Vec<(bool, Buffer)> {
    let kinds = [(false, rank.replicas), (true, rank.expert_replicas)];
    kinds
        .into_iter()
        .filter_map(|(expert, replicas)| {
            let params: Vec<ParamId> =
                params.iter().copied().filter(|&id| is_expert(tape, rank, id) == expert).collect();
            let padded = rank.distributed_optimizer;
            let buffer = || Buffer::new(tape, &params, shared, replicas, padded);
            (!params.is_empty()).then(|| (expert, buffer()))
        })
        .collect()
}

/// Experts have groups of their own (`allreduce = False`), where ranks share them.
fn is_expert(tape: &Tape, rank: &Rank, id: ParamId) -> bool {
    1 < rank.expert && tape.param(id).name.contains(".experts.")
}

/// One optimizer for dense parameters, one for experts where there are any.
fn optimizers(
    tape: &mut Tape,
    rank: &Rank,
    owned: &[Vec<ParamId>],
    buffers: &[(bool, Buffer)],
    fused: bool,
) -> Vec<Optimizer> {
    let mut optimizers = Vec::new();
    for expert in [false, true] {
        let shards: Vec<(ParamId, u64)> = if rank.distributed_optimizer {
            let own = buffers.iter().filter(|(kind, _)| *kind == expert);
            own.flat_map(|(_, buffer)| buffer.shards()).collect()
        } else {
            let all = owned.iter().flatten().filter(|&&id| is_expert(tape, rank, id) == expert);
            all.map(|&id| (id, tape.param(id).shape.elements())).collect()
        };
        if !expert || !shards.is_empty() {
            optimizers.push(Optimizer::new(tape, shards.into_iter(), fused));
        }
    }
    optimizers
}

impl Model {
    /// The mask that every layer gets, from the bytes that a checkpoint kept.
    fn mask(&self, tape: &mut Tape, storage: StorageId) -> Tensor {
        let tokens = self.rank.tokens;
        tape.handle(storage, Shape::new([1, 1, tokens, tokens]), DType::Bool)
    }
}

impl Recompute for Model {
    fn recompute(&self, _: &mut Tape, layer: u32, _: &Tensor, _: &[Tensor]) {
        unreachable!("layer {layer} of a Megatron-core model has reentrant checkpoints alone")
    }

    fn rerun(&self, tape: &mut Tape, part: Part, kept: &[StorageId]) -> Rerun {
        let (Part::CoreAttention { chunk, .. } | Part::Layers { chunk, .. }) = part;
        let chunk = &self.chunks[chunk as usize];
        let (config, rank) = (&self.config, &self.rank);
        match part {
            Part::CoreAttention { layer, .. } => {
                let mask = self.mask(tape, kept[3]);
                let context =
                    Context { config, rank, chunk: chunk.index, mask: &mask, frequencies: None };
                tape.enter_layer(Some(layer));
                let inputs = leaves(tape, &context, kept);
                let output = core_attention(tape, &context, inputs.each_ref());
                tape.release(mask);
                Rerun { output, leaves: inputs.map(Some) }
            }
            Part::Layers { first, .. } => {
                let mask = self.mask(tape, kept[1]);
                let frequencies = kept.get(2).map(|&storage| {
                    let dim = 2 * (config.rotary_dim / 2);
                    tape.handle(storage, Shape::new([rank.tokens, 1, 1, dim]), DType::F32)
                });
                let context = Context {
                    config,
                    rank,
                    chunk: chunk.index,
                    mask: &mask,
                    frequencies: frequencies.as_ref(),
                };
                tape.enter_layer(Some(chunk.layer_number(first as usize)));
                let shape = Shape::new([rank.local_tokens(), rank.batch, config.hidden]);
                let input = tape.handle(kept[0], shape, DType::BF16);
                let input = tape.detached(input);
                let output = chunk.rerun_layer(tape, &context, first as usize, &input);
                for tensor in [Some(mask), frequencies].into_iter().flatten() {
                    tape.release(tensor);
                }
                Rerun { output, leaves: [Some(input), None, None] }
            }
        }
    }
}

/// Bytes that the schedule keeps on the GPU: a count of tokens.
fn token_count(tape: &mut Tape) -> StorageId {
    tape.enter(Block::Data, "total_num_tokens");
    tape.allocate(4, Prim::Input)
}
