//! What a reader should know about a valid scenario.

use super::families::{Architecture, Data, Positions};
use super::validate::ResolvedModel;
use crate::catalog::OutsideEstimate;
use crate::wire::note::{Note, Topic};
use crate::wire::parallel::DataParallel;
use crate::wire::scenario::{Attention, Framework};
use crate::wire::{GpuProfile, Scenario};

pub(super) fn notes(
    scenario: &Scenario,
    model: &ResolvedModel<'_>,
    gpu: &GpuProfile,
    outside_pool: &OutsideEstimate,
) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut add = |path: &str, topic, message: String, arguments: Vec<String>| {
        notes.push(Note { path: path.to_owned(), topic, message, arguments });
    };
    let seq_len = scenario.workload.seq_len;
    if let Positions::Trained(positions) = model.architecture.family().positions()
        && positions < seq_len
    {
        let message = format!(
            "the model was made for {positions} positions; {seq_len} tokens run, but beyond what \
             it was trained for"
        );
        let arguments = Vec::from([seq_len.to_string(), positions.to_string()]);
        add("workload.seq_len", Topic::PositionsExceeded, message, arguments);
    }
    if scenario.stack.compile {
        let message = "the compiled program is approximated by groups of fused operations; its peaks are within \
                       some per cent of what was measured, and its times were not compared";
        let topic = Topic::CompiledApproximation;
        add("stack.compile", topic, message.to_owned(), Vec::new());
    }
    if !gpu.measured {
        let message = format!(
            "no job on {} was ever measured; memory outside the pool: {}",
            gpu.name, outside_pool.source
        );
        add("hardware.gpu", Topic::NeverMeasured, message, Vec::from([gpu.name.clone()]));
    }
    if !gpu.unverified.is_empty() {
        let message =
            format!("not verified at the source for {}: {}", gpu.name, gpu.unverified.join(", "));
        add("hardware.gpu", Topic::UnverifiedGpu, message, gpu.unverified.clone());
    }
    if let Some(card) = model.card.filter(|card| !card.unverified.is_empty()) {
        let message =
            format!("not verified at the source for {}: {}", card.name, card.unverified.join(", "));
        add("model.id", Topic::UnverifiedModel, message, card.unverified.clone());
    }
    if let Data::Images(_) = model.architecture.family().data() {
        let message = "how much workspace cuDNN takes for a convolution is not published; a rule \
                       measured on an H200 stands for it, and the band has room for one more of the \
                       largest";
        add("model", Topic::ConvolutionWorkspaces, message.to_owned(), Vec::new());
    }
    if 1 < scenario.hardware.count {
        let message = "communication between GPUs is not timed: step times and rates leave it out";
        add("hardware.count", Topic::UntimedCommunication, message.to_owned(), Vec::new());
    }
    let traced = matches!(model.architecture, Architecture::Falcon(_) | Architecture::Parallel(_));
    let class = match &model.architecture {
        Architecture::Megatron(model) if model.engine.is_some() => {
            Some(("stack.framework", "Transformer Engine 2.11"))
        }
        _ => traced.then_some(("model", "transformers 5.17")),
    };
    for (path, source) in from_source(scenario).chain(class) {
        let message = format!(
            "this is written after the source of {source}; no capture of it on a GPU was made yet"
        );
        add(path, Topic::FromSource, message, Vec::from([source.to_owned()]));
    }
    notes
}

/// Fields that ask for what no capture stands behind, and whose source it is written after.
fn from_source(scenario: &Scenario) -> impl Iterator<Item = (&'static str, &'static str)> {
    let parallel = &scenario.parallel;
    let offloads = parallel.data == Some(DataParallel::Zero3) && parallel.zero.offload_param;
    let engine = scenario.stack.framework == Framework::MegatronCore
        && parallel.data == Some(DataParallel::Zero1);
    let flash = match scenario.stack.attention {
        Attention::Sdpa | Attention::Eager => None,
        Attention::FlashAttention2 => Some("flash-attn 2.8"),
        Attention::FlashAttention3 => Some("flash-attn 3"),
    };
    let all = [
        ("parallel.zero.offload_param", offloads.then_some("deepspeed 0.19.8")),
        ("parallel.data", engine.then_some("Megatron-DeepSpeed at 8387ae1")),
        ("stack.attention", flash),
        ("stack.activation_offload", scenario.stack.activation_offload.then_some("PyTorch 2.11")),
        ("optimizer.in_backward", scenario.optimizer.in_backward.then_some("PyTorch 2.11")),
    ];
    all.into_iter().filter_map(|(path, source)| Some((path, source?)))
}
