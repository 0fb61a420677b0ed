//! How stages 1 and 2 average a bucket of gradients.
//!
//! # Source
//!
//! deepspeed 0.19.8, `runtime/zero/stage_1_and_2.py`: `average_tensor`, `allreduce_and_scatter`,
//! `allreduce_bucket`, `_buffered_reduce_fallback_preserving_fp32`.

use crate::clock::Pointwise;
use crate::primitives::pointwise;
use crate::tape::{Prim, StorageId, Tape};
use crate::tensor::DType;

use super::elements;
use super::partition::Partitioned;

/// A run of elements of the bucket that one rank wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    rank: u64,
    elements: u64,
    /// Whether it is added to the rank's fp32 partition too.
    summed: bool,
}

impl Partitioned {
    /// Averages the bucket: slices in turn, joined where one rank has neighbours, sent together.
    pub(super) fn average(&mut self, tape: &mut Tape) {
        if !self.options.contiguous {
            return self.average_tensors(tape);
        }
        let mut slices = Vec::<Slice>::new();
        for id in self.bucket.clone() {
            for (rank, elements) in self.slices[&id].clone() {
                let summed = rank == 0 && self.compact() && !self.options.offload_optimizer;
                if summed {
                    self.compact_partition(tape);
                }
                match slices.last_mut() {
                    Some(last) if !summed && last.rank == rank && !last.summed => {
                        last.elements += elements;
                    }
                    _ => slices.push(Slice { rank, elements, summed }),
                }
            }
        }
        let mut together = Vec::new();
        let mut count = 0;
        for slice in slices {
            together.push(slice);
            count += slice.elements;
            if self.options.reduce_bucket < count {
                self.all_reduce(tape, &together);
                together.clear();
                count = 0;
            }
        }
        self.all_reduce(tape, &together);
    }

    /// Gradients that were not copied into a buffer, joined and copied back.
    fn average_tensors(&mut self, tape: &mut Tape) {
        let mut slices = Vec::new();
        for id in self.bucket.clone() {
            let own: u64 = self.slices[&id].iter().filter(|s| s.0 == 0).map(|s| s.1).sum();
            let summed = 0 < own && self.compact() && !self.options.offload_optimizer;
            if summed {
                self.compact_partition(tape);
            }
            let all = elements(tape, id);
            // What is added to the partition is the rank's own part.
            let elements = if summed { own } else { all };
            slices.push((all, Slice { rank: 0, elements, summed }));
        }
        let count = slices.iter().map(|(all, _)| all).sum();
        let sent = self.join(tape, count, slices.len());
        for (_, slice) in slices {
            self.add_to_partition(tape, slice);
        }
        tape.release_storage(sent);
    }

    /// `allreduce_and_copy_with_multiple_ranks`.
    fn all_reduce(&mut self, tape: &mut Tape, slices: &[Slice]) {
        if slices.is_empty() {
            return;
        }
        let count = slices.iter().map(|slice| slice.elements).sum();
        let sent = self.join(tape, count, slices.len());
        for &slice in slices {
            self.add_to_partition(tape, slice);
        }
        tape.release_storage(sent);
    }

    /// `allreduce_bucket`: one tensor of all, which is a view of a single one, in the type of the
    /// weights, in which it is sent.
    fn join(&self, tape: &mut Tape, count: u64, tensors: usize) -> StorageId {
        let (dtype, sent_as) = (self.buffer_dtype(), self.options.dtype);
        let bytes = count * dtype.bytes();
        let joined =
            if tensors == 1 { StorageId::NONE } else { tape.allocate(bytes, Prim::AllReduce) };
        tape.run(Prim::AllReduce, pointwise(Pointwise::Copy, dtype, 4 * bytes));
        if dtype == sent_as {
            return joined;
        }
        let sent = tape.allocate(count * sent_as.bytes(), Prim::AllReduce);
        tape.run(Prim::AllReduce, pointwise(Pointwise::Narrow, dtype, 2 * bytes));
        tape.release_storage(joined);
        sent
    }

    /// `_add_to_grad_partition_buffer`: `output.add_(source.to(torch.float32))`.
    fn add_to_partition(&self, tape: &mut Tape, slice: Slice) {
        if slice.summed && self.options.dtype != DType::F32 {
            tape.scratch(4 * slice.elements, Prim::AllReduce);
        }
    }
}
