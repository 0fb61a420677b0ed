//! When stage 3 gathers weights and lets them go (`PartitionedParameterCoordinator`).
//!
//! A module fetches its parameters before it runs, forward and backward. The first micro-batch is
//! recorded; from the second on, parameters that come next are fetched ahead, and those that come
//! again soon stay.
//!
//! Modules without parameters count as well: each is a chance to fetch ahead. Those that hold others
//! are known by the parameters' paths, activations, dropouts and rotary tables by their names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::clock::Pointwise;
use crate::order;
use crate::primitives::pointwise;
use crate::tape::{ParamId, Prim, StorageId, Tape};
use crate::wire::timeline::Category;

use super::{GATHER_STREAM, ZeroOptions, elements, on_stream};

/// Parameters that were gathered together (`AllGatherCoalescedHandle`).
#[derive(Debug)]
struct Handle {
    /// Their parts from all ranks; held until the last of them has been waited for.
    flat: StorageId,
    params: Vec<ParamId>,
    waiting: usize,
    complete: bool,
}

/// A weight that is whole, or on its way.
#[derive(Debug, Default)]
pub(super) struct Coordinator {
    /// Parameters of each module.
    modules: Vec<Vec<ParamId>>,
    of_path: BTreeMap<String, usize>,
    /// Whole weights (`AVAILABLE`).
    pub(super) whole: BTreeMap<ParamId, StorageId>,
    /// Weights on their way (`INFLIGHT`).
    in_flight: BTreeSet<ParamId>,
    /// `__inflight_param_registry`.
    registry: BTreeMap<ParamId, usize>,
    handles: Vec<Handle>,
    /// `ds_active_sub_modules`.
    active: BTreeMap<ParamId, BTreeSet<usize>>,
    pub(super) persistent: BTreeSet<ParamId>,
    /// `__submodule_order`, complete from the second forward on.
    order: Vec<usize>,
    complete: bool,
    recording: bool,
    queue: VecDeque<(ParamId, usize)>,
    most_recent: BTreeMap<ParamId, usize>,
    step: usize,
    available: u64,
    /// Modules that hold the one that ran last.
    path: Vec<String>,
}

/// The module without parameters.
const HOLDER: usize = 0;

impl Coordinator {
    /// Groups the parameters by their modules.
    pub(super) fn new(tape: &Tape, params: &[ParamId], options: &ZeroOptions) -> Self {
        let mut this = Self { modules: Vec::from([Vec::new()]), ..Self::default() };
        for &id in params {
            let path = module_path(tape, id).to_owned();
            let next = this.modules.len();
            let module = *this.of_path.entry(path).or_insert(next);
            if module == next {
                this.modules.push(Vec::new());
            }
            this.modules[module].push(id);
            if elements(tape, id) <= options.persistence {
                this.persistent.insert(id);
            }
        }
        this
    }

    /// The module that a parameter is in.
    pub(super) fn module_of(&self, tape: &Tape, id: ParamId) -> usize {
        self.of_path.get(module_path(tape, id)).copied().unwrap_or(HOLDER)
    }

    /// `reset_step`, at the start of each forward; then the model's own fetch.
    pub(super) fn reset(&mut self, tape: &mut Tape, options: &ZeroOptions) {
        let late: Vec<ParamId> = self.registry.keys().copied().collect();
        for id in late {
            self.wait(tape, id, options);
            self.release_one(tape, id);
        }
        if self.recording {
            self.complete = true;
            self.recording = false;
        } else if !self.complete {
            self.recording = true;
        }
        self.queue.clear();
        if self.complete {
            for (step, &module) in self.order.iter().enumerate() {
                self.queue.extend(self.modules[module].iter().map(|&id| (id, step)));
            }
        }
        self.most_recent.clear();
        self.step = 0;
        self.available = 0;
        self.path.clear();
        self.fetch(tape, HOLDER, options);
    }

    /// The modules that hold this parameter's module and not the one that ran last, then its own.
    pub(super) fn enter(&mut self, tape: &mut Tape, id: ParamId, options: &ZeroOptions) {
        let path = module_path(tape, id).to_owned();
        let holders = holders(&path);
        let common = holders.iter().zip(&self.path).take_while(|(a, b)| a == b).count();
        for _ in common..holders.len() {
            self.fetch(tape, HOLDER, options);
        }
        self.path = holders;
        let module = self.module_of(tape, id);
        self.fetch(tape, module, options);
    }

    /// A module that has no parameters and holds no others.
    pub(super) fn enter_leaf(&mut self, tape: &mut Tape, options: &ZeroOptions) {
        self.fetch(tape, HOLDER, options);
    }

    /// `fetch_sub_module`.
    fn fetch(&mut self, tape: &mut Tape, module: usize, options: &ZeroOptions) {
        if self.recording {
            self.order.push(module);
        }
        let params = self.modules[module].clone();
        self.gather(tape, &params, options);
        for &id in &params {
            self.active.entry(id).or_default().insert(module);
            self.wait(tape, id, options);
        }
        if self.complete {
            self.prefetch(tape, &params, options);
        }
        self.step += 1;
    }

    /// What comes next, up to a bucket of it.
    fn prefetch(&mut self, tape: &mut Tape, params: &[ParamId], options: &ZeroOptions) {
        let step = self.step;
        let fetched = |most: &BTreeMap<ParamId, usize>, id: &ParamId| {
            most.get(id).is_some_and(|&last| step <= last)
        };
        let missing = params.iter().copied().filter(|id| !fetched(&self.most_recent, id));
        let mut missing: BTreeSet<ParamId> = order::set(missing);
        while !missing.is_empty() {
            let Some((id, last)) = self.queue.pop_front() else { break };
            self.most_recent.insert(id, last);
            missing.remove(&id);
        }
        let room = options.max_live.saturating_sub(self.available).min(options.prefetch_bucket);
        let mut ahead = Vec::new();
        let mut count = 0;
        while count < room {
            let Some((id, last)) = self.queue.pop_front() else { break };
            let recent = self.most_recent.entry(id).or_insert(last);
            *recent = last.max(*recent);
            let here = self.whole.contains_key(&id) || self.in_flight.contains(&id);
            if !here && !ahead.contains(&id) {
                ahead.push(id);
                count += elements(tape, id);
            }
        }
        self.gather(tape, &ahead, options);
    }

    /// `all_gather_coalesced`: one parameter into its own tensor, several into one.
    fn gather(&mut self, tape: &mut Tape, params: &[ParamId], options: &ZeroOptions) {
        let mut params: Vec<ParamId> = params
            .iter()
            .copied()
            .filter(|id| !self.whole.contains_key(id) && !self.in_flight.contains(id))
            .collect();
        order::sort(&mut params);
        if params.is_empty() {
            return;
        }
        self.available += params.iter().map(|&id| elements(tape, id)).sum::<u64>();
        self.in_flight.extend(params.iter().copied());
        let flat = on_stream(tape, GATHER_STREAM, |tape| Self::buffer(tape, &params, options));
        let handle = self.handles.len();
        for &id in &params {
            self.registry.insert(id, handle);
        }
        let waiting = params.len();
        self.handles.push(Handle { flat, params, waiting, complete: false });
    }

    fn buffer(tape: &mut Tape, params: &[ParamId], options: &ZeroOptions) -> StorageId {
        let size = options.dtype.bytes();
        let parts: Vec<u64> = params.iter().map(|&id| part(tape, id, options.ranks)).collect();
        if options.ranks == 1 && !options.offload_param {
            return StorageId::NONE;
        }
        let bytes = parts.iter().sum::<u64>() * options.ranks * size;
        let flat = tape.allocate(bytes, Prim::AllGather);
        tape.categorise(flat, Category::Weights);
        if options.offload_param && 1 < options.ranks {
            let uploads: Vec<StorageId> =
                parts.iter().map(|part| tape.allocate(part * size, Prim::AllGather)).collect();
            for upload in uploads {
                tape.release_storage(upload);
            }
        }
        tape.run(Prim::AllGather, pointwise(Pointwise::Copy, options.dtype, 2 * bytes));
        flat
    }

    /// Waits for a parameter; with it come all that were gathered together.
    fn wait(&mut self, tape: &mut Tape, id: ParamId, options: &ZeroOptions) {
        let Some(index) = self.registry.remove(&id) else { return };
        let handle = &mut self.handles[index];
        handle.waiting -= 1;
        let (last, first) = (handle.waiting == 0, !handle.complete);
        handle.complete = true;
        let flat = handle.flat;
        if first {
            let params = handle.params.clone();
            let single = params.len() == 1 || options.ranks == 1;
            on_stream(tape, GATHER_STREAM, |tape| {
                for id in params {
                    let whole = if single {
                        tape.retain_storage(flat);
                        flat
                    } else {
                        let bytes = elements(tape, id) * options.dtype.bytes();
                        tape.allocate(bytes, Prim::AllGather)
                    };
                    tape.own(whole, id, Category::Weights);
                    self.in_flight.remove(&id);
                    self.whole.insert(id, whole);
                }
            });
        }
        if last {
            tape.release_storage(flat);
            if self.registry.is_empty() {
                self.handles.clear();
            }
        }
    }

    /// `release_sub_module`.
    pub(super) fn release(&mut self, tape: &mut Tape, module: usize, options: &ZeroOptions) {
        let params = self.modules[module].clone();
        let go = self.to_release(tape, &params, options);
        for id in params {
            if let Some(active) = self.active.get_mut(&id) {
                active.remove(&module);
            }
            if go.contains(&id) {
                self.release_one(tape, id);
            }
        }
    }

    /// `__params_to_release`: none that stays whole, that was counted as fetched for later, or that
    /// comes again within the distance.
    fn to_release(
        &self,
        tape: &Tape,
        params: &[ParamId],
        options: &ZeroOptions,
    ) -> BTreeSet<ParamId> {
        if !self.complete {
            return order::set(params.iter().copied());
        }
        let later = |id: &ParamId| self.most_recent.get(id).is_some_and(|&last| self.step < last);
        let go = params.iter().copied();
        let mut go = order::set(go.filter(|id| !self.persistent.contains(id) && !later(id)));
        let mut passed = 0;
        for &module in self.order.iter().skip(self.step) {
            if go.is_empty() || options.reuse_distance <= passed {
                break;
            }
            for id in &self.modules[module] {
                go.remove(id);
                passed += elements(tape, *id);
            }
        }
        go
    }

    /// `release_backward_leftovers` of a module whose input needs no gradient.
    pub(super) fn release_leftover(&mut self, tape: &mut Tape, module: usize) {
        for id in self.modules[module].clone() {
            if let Some(active) = self.active.get_mut(&id) {
                active.remove(&module);
            }
            if !self.persistent.contains(&id) {
                self.release_one(tape, id);
            }
        }
    }

    /// `release_and_reset_all`. Weights that stay whole would go here and be gathered again after the
    /// update, at the same sizes: they are kept instead, so that a step leaves what it found.
    pub(super) fn release_all(&mut self, tape: &mut Tape, options: &ZeroOptions) {
        for id in self.modules.concat() {
            self.wait(tape, id, options);
            self.active.remove(&id);
            if !(self.complete && self.persistent.contains(&id)) {
                self.release_one(tape, id);
            }
        }
    }

    /// `__release_param`.
    fn release_one(&mut self, tape: &mut Tape, id: ParamId) {
        if self.active.get(&id).is_some_and(|modules| !modules.is_empty()) {
            return;
        }
        if let Some(whole) = self.whole.remove(&id) {
            tape.release_storage(whole);
            self.available = self.available.saturating_sub(elements(tape, id));
        }
    }

    /// `_allgather_params_coalesced` of the parameters that stay whole, after a step.
    pub(super) fn gather_persistent(&mut self, tape: &mut Tape, options: &ZeroOptions) {
        if options.ranks == 1 && !options.offload_param {
            return;
        }
        let size = options.dtype.bytes();
        let missing = self.persistent.iter().filter(|id| !self.whole.contains_key(id));
        let params: Vec<ParamId> = missing.copied().collect();
        let parts: Vec<u64> = params.iter().map(|&id| part(tape, id, options.ranks)).collect();
        let uploads: Vec<StorageId> = parts
            .iter()
            .filter(|_| options.offload_param && 1 < options.ranks)
            .map(|part| tape.allocate(part * size, Prim::AllGather))
            .collect();
        for (&id, part) in params.iter().zip(&parts) {
            let whole = tape.allocate(part * options.ranks * size, Prim::AllGather);
            tape.own(whole, id, Category::Weights);
            self.whole.insert(id, whole);
        }
        for upload in uploads {
            tape.release_storage(upload);
        }
    }
}

/// Elements of a rank's part (`partition_numel`): `⌈elements / ranks⌉`.
pub(super) fn part(tape: &Tape, id: ParamId, ranks: u64) -> u64 {
    elements(tape, id).div_ceil(ranks)
}

fn module_path(tape: &Tape, id: ParamId) -> &str {
    tape.param(id).name.rsplit_once('.').map_or("", |(module, _)| module)
}

/// The modules that are called around one, outermost first, the model itself left out. A list of
/// modules is not called.
fn holders(path: &str) -> Vec<String> {
    let cuts = path.match_indices('.').map(|(at, _)| at);
    cuts.filter(|at| !path[at + 1..].starts_with(|first: char| first.is_ascii_digit()))
        .map(|at| path[..at].to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_modules_are_not_called() {
        let around = holders("model.layers.3.self_attn.q_proj");
        assert_eq!(around, ["model", "model.layers.3", "model.layers.3.self_attn"]);
        assert!(holders("lm_head").is_empty());
    }
}
