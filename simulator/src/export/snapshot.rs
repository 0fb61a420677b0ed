//! A snapshot as `torch.cuda.memory._dump_snapshot` writes it, for PyTorch's `memory_viz` page and
//! `torch.cuda._memory_viz`.
//!
//! The recorded step begins with the allocation of all that is alive before it (time 0), so that
//! weights and optimizer states have categories as well. Each frame stack says what a stack trace
//! would: the tensor, the primitive in its block and layer, the phase.
//!
//! Source: PyTorch, `torch/csrc/cuda/memory_snapshot.cpp` (`_memory_snapshot_pickled`: the keys),
//! `torch/cuda/_memory_viz.py` and `torch/utils/viz/MemoryViz.js` (what is read).

use std::collections::BTreeMap;

use crate::allocator::{SegmentAction, Segments, Settings};
use crate::order;
use crate::simulate::Simulation;
use crate::wire::report::StepKind;
use crate::wire::timeline::{NO_LAYER, PhaseKind, Timeline};

use super::pickle::{Memo, Pickle};
use super::placement::{Action, Entry, Live, Placement, place};
use super::{Names, remarks};

/// Category of what is no tensor. `MemoryViz.js` stumbles over a snapshot with categories of which
/// none has this name.
const UNKNOWN: &str = "unknown";
/// Largest block of the small pool (`kSmallSize`), which tells a segment's kind.
const SMALL_SEGMENT: u64 = 2 << 20;

/// One step as a pickled snapshot.
///
/// Addresses are a replay's: the process as it comes to that step, on a device that never runs
/// out of memory.
pub fn snapshot_pickle(simulation: &Simulation, step: StepKind) -> Vec<u8> {
    let conf = &simulation.report.scenario.stack.alloc_conf;
    let settings = Settings::parse(conf).unwrap_or(Settings::DEFAULT);
    let (first, recorded) = match step {
        StepKind::First => (None, &simulation.first),
        StepKind::Steady => (Some(&simulation.first), &simulation.steady),
    };
    let device_bytes = simulation.report.gpu.capacity_bytes.get();
    let placement = place(settings.clone(), device_bytes, first, recorded);
    let mut writer = Writer {
        pickle: Pickle::new(),
        timeline: recorded,
        frames: BTreeMap::new(),
        births: births(&placement.entries),
        is_expandable: settings.segments == Segments::Expandable,
    };
    writer.pickle.open_dict();
    writer.state(&placement);
    writer.settings(conf, &settings);
    writer.remarks(&remarks(&simulation.report));
    writer.pickle.close_dict();
    writer.pickle.finish()
}

/// What a frame stack depends on: tensor, and the phase that allocated it.
type FrameKey = (u32, u32, u32, u32, Option<(PhaseKind, u32)>);

struct Writer<'a> {
    pickle: Pickle,
    timeline: &'a Timeline,
    frames: BTreeMap<FrameKey, Memo>,
    births: Births,
    is_expandable: bool,
}

impl Writer<'_> {
    /// The segments at the end, and what led to them.
    fn state(&mut self, placement: &Placement) {
        self.pickle.key("segments").open_list();
        for (address, bytes) in &placement.segments {
            self.pickle.item();
            self.segment(*address, *bytes, &placement.live);
        }
        self.pickle.close_list();
        self.pickle.key("device_traces").open_list();
        self.pickle.item().open_list();
        for entry in &placement.entries {
            self.pickle.item();
            self.entry(entry);
        }
        self.pickle.item();
        self.end();
        self.pickle.close_list();
        self.pickle.close_list();
    }

    /// The last entry, as a snapshot leaves one in its own trace. Its category is the one that
    /// `MemoryViz.js` must find.
    fn end(&mut self) {
        let pickle = &mut self.pickle;
        pickle.open_dict();
        pickle.key("action").text("snapshot");
        pickle.key("addr").int(0);
        pickle.key("size").int(0);
        pickle.key("stream").int(0);
        pickle.key("time_us").int(self.timeline.step_ns / 1000);
        pickle.key("category").text(UNKNOWN);
        pickle.key("frames").open_list();
        pickle.close_list();
        pickle.close_dict();
    }

    fn remarks(&mut self, remarks: &[String]) {
        let pickle = &mut self.pickle;
        pickle.key("external_annotations").open_list();
        pickle.close_list();
        pickle.key("tidemark").open_list();
        for remark in remarks {
            pickle.item().text(remark);
        }
        pickle.close_list();
    }

    /// A segment with its blocks, handed out and free, from its first byte to its last.
    fn segment(&mut self, address: u64, bytes: u64, live: &[Live]) {
        let first = live.partition_point(|block| block.address < address);
        let end = live.partition_point(|block| block.address < address + bytes);
        let blocks = &live[first..end];
        let allocated: u64 = blocks.iter().map(|block| block.bytes).sum();
        let sizes = &self.timeline.tensors.bytes;
        let requested: u64 = blocks.iter().map(|block| sizes[block.tensor]).sum();
        let is_small = bytes <= SMALL_SEGMENT;
        let pickle = &mut self.pickle;
        pickle.open_dict();
        pickle.key("device").int(0);
        pickle.key("address").int(address);
        pickle.key("total_size").int(bytes);
        pickle.key("allocated_size").int(allocated);
        pickle.key("active_size").int(allocated);
        pickle.key("requested_size").int(requested);
        pickle.key("stream").int(0);
        pickle.key("segment_type").text(if is_small { "small" } else { "large" });
        pickle.key("segment_pool_id").pair(0, 0);
        pickle.key("is_expandable").bool(self.is_expandable);
        pickle.key("frames").open_list();
        pickle.close_list();
        pickle.key("blocks").open_list();
        let mut next = address;
        for block in blocks {
            self.free_block(next, block.address);
            self.live_block(block);
            next = block.address + block.bytes;
        }
        self.free_block(next, address + bytes);
        self.pickle.close_list();
        self.pickle.close_dict();
    }

    fn free_block(&mut self, start: u64, end: u64) {
        if start < end {
            let pickle = self.pickle.item();
            pickle.open_dict();
            pickle.key("address").int(start);
            pickle.key("size").int(end - start);
            pickle.key("requested_size").int(0);
            pickle.key("state").text("inactive");
            pickle.key("frames").open_list();
            pickle.close_list();
            pickle.close_dict();
        }
    }

    fn live_block(&mut self, block: &Live) {
        let requested = self.timeline.tensors.bytes[block.tensor];
        let pickle = self.pickle.item();
        pickle.open_dict();
        pickle.key("address").int(block.address);
        pickle.key("size").int(block.bytes);
        pickle.key("requested_size").int(requested);
        pickle.key("state").text("active_allocated");
        self.frames(block.tensor);
        self.pickle.close_dict();
    }

    fn entry(&mut self, entry: &Entry) {
        let action = match entry.action {
            Action::Free => {
                self.action("free_requested", entry);
                self.pickle.item();
                "free_completed"
            }
            Action::Alloc => "alloc",
            Action::Segment(SegmentAction::Alloc) => "segment_alloc",
            Action::Segment(SegmentAction::Free) => "segment_free",
            Action::Segment(SegmentAction::Map) => "segment_map",
            Action::Segment(SegmentAction::Unmap) => "segment_unmap",
        };
        self.action(action, entry);
    }

    fn action(&mut self, action: &str, entry: &Entry) {
        let category = entry.tensor.and_then(|tensor| Names(self.timeline).category(tensor));
        let pickle = &mut self.pickle;
        pickle.open_dict();
        pickle.key("action").text(action);
        pickle.key("addr").int(entry.address);
        pickle.key("size").int(entry.bytes);
        pickle.key("stream").int(0);
        pickle.key("time_us").int(entry.time_ns / 1000);
        pickle.key("category").text(category.map_or(UNKNOWN, |category| category.word()));
        if let Some(tensor) = entry.tensor {
            self.frames(tensor);
        } else {
            self.pickle.key("frames").open_list();
            self.pickle.close_list();
        }
        self.pickle.close_dict();
    }

    /// The frame stack of a tensor, innermost first; equal ones are one object.
    fn frames(&mut self, tensor: usize) {
        self.pickle.key("frames");
        let names = Names(self.timeline);
        let columns = &self.timeline.tensors;
        let (name, primitive) = (columns.name[tensor], columns.primitive[tensor]);
        let (block, layer) = (columns.block[tensor], columns.layer[tensor]);
        let phase = self.births.get(&tensor).and_then(|event| names.phase(*event));
        let phase = phase.map(|phase| (phase.kind, phase.micro_batch));
        let key = (name, primitive, block, layer, phase);
        if let Some(memo) = self.frames.get(&key) {
            self.pickle.recall(*memo);
            return;
        }
        let layer_number = if layer == NO_LAYER { 0 } else { layer };
        let (word, micro_batch) =
            phase.map_or(("before the step", 0), |(kind, micro_batch)| (kind.word(), micro_batch));
        self.pickle.open_list();
        self.frame("tensor", 0, names.label(name));
        self.frame(&names.place(block, layer), layer_number, names.label(primitive));
        self.frame("phase", micro_batch, word);
        self.pickle.close_list();
        let memo = self.pickle.memorize();
        self.frames.insert(key, memo);
    }

    fn frame(&mut self, filename: &str, line: u32, name: &str) {
        let pickle = self.pickle.item();
        pickle.open_dict();
        pickle.key("filename").text(filename);
        pickle.key("line").int(u64::from(line));
        pickle.key("name").text(name);
        pickle.close_dict();
    }

    fn settings(&mut self, conf: &str, settings: &Settings) {
        let pickle = &mut self.pickle;
        pickle.key("allocator_settings").open_dict();
        pickle.key("PYTORCH_CUDA_ALLOC_CONF").text(conf);
        match settings.max_split_size {
            Some(bytes) => pickle.key("max_split_size").int(bytes),
            None => pickle.key("max_split_size").minus_one(),
        }
        let threshold = settings.garbage_collection_threshold.unwrap_or(0.0);
        pickle.key("garbage_collection_threshold").float(threshold);
        pickle.key("expandable_segments").bool(self.is_expandable);
        pickle.key("pinned_num_register_threads").int(1);
        pickle.key("release_lock_on_cudamalloc").bool(false);
        pickle.key("pinned_use_cuda_host_register").bool(false);
        pickle.key("roundup_power2_divisions").open_dict();
        for (power, divisions) in settings.roundup_power2_divisions.iter().enumerate() {
            pickle.key(&(1_u64 << power).to_string()).int(*divisions);
        }
        pickle.close_dict();
        pickle.close_dict();
    }
}

/// The event that allocated each tensor of the recorded step.
type Births = BTreeMap<usize, usize>;

fn births(entries: &[Entry]) -> Births {
    let made = entries.iter().filter(|entry| entry.action == Action::Alloc);
    order::map(made.filter_map(|entry| Some((entry.tensor?, entry.event?))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::scenario::{Format, read, validate};
    use crate::simulate::simulate;

    #[test]
    fn the_shape_is_the_real_one() {
        let text = "version = 1\n[model]\nid = \"gpt2\"\n[hardware]\ngpu = \"h200-sxm\"\n\
                    [workload]\nmicro_batch = 1\nseq_len = 64\n";
        let scenario = read(text, Format::Toml).unwrap();
        let simulation = simulate(&validate(&scenario, &Catalog::builtin()).unwrap());
        for step in [StepKind::First, StepKind::Steady] {
            let pickle = snapshot_pickle(&simulation, step);
            assert!(pickle.starts_with(&[0x80, 2]) && pickle.ends_with(b"."));
            let count = |word: &[u8]| pickle.windows(word.len()).filter(|w| *w == word).count();
            for word in [b"device_traces".as_slice(), b"free_completed", b"segment_pool_id"] {
                assert_eq!(count(word), 1, "written once, then referred to");
            }
        }
    }
}
