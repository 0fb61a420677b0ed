//! The forward graph: which values become buffers, and the kernels that make them.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::{Pass, Pointwise};
use crate::primitives::{pointwise, product};
use crate::tape::{Backward, NodeId, Tape};
use crate::tensor::DType;
use crate::wire::timeline::Category;

use super::cut::Partition;
use super::graph::{Graph, Kind};
use super::plan::{Plan, Step};

/// Values with their buffers, where they have one.
pub(super) struct Written {
    pub(super) buffers: Vec<Option<usize>>,
    /// Sums of the exponentials of each attention.
    pub(super) sums: BTreeMap<usize, usize>,
}

impl Written {
    /// The buffers that a kernel reads to compute a value again, or to use it.
    pub(super) fn sources(&self, graph: &Graph, value: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open = Vec::from([value]);
        while let Some(value) = open.pop() {
            if !seen.insert(value) {
                continue;
            }
            match self.buffers[value] {
                Some(buffer) => {
                    found.insert(buffer);
                }
                None => open.extend(&graph.values[value].inputs),
            }
        }
        found
    }
}

/// Elements to which inductor pads a dimension of a product (`get_alignment_size` in
/// `torch/_inductor/fx_passes/pad_mm.py`).
pub(super) const fn alignment(dtype: DType) -> u64 {
    if dtype.is_half() { 8 } else { 4 }
}

/// Emits the forward kernels.
///
/// A value is written where backward keeps it, where a library's kernel makes or reads it, and where it is used
/// on both sides of such a kernel; all others live in registers of the kernel that they are fused into.
pub(super) fn forward(
    graph: &Graph,
    partition: &Partition,
    tape: &Tape,
    plan: &mut Plan,
) -> Written {
    let mut fed = vec![false; graph.values.len()];
    for value in graph.values.iter().filter(|value| value.kind == Kind::Heavy) {
        for &input in &value.inputs {
            fed[graph.base(input)] = true;
        }
    }
    let written = |index: usize| match graph.values[index].kind {
        Kind::View | Kind::Given => false,
        Kind::Heavy => true,
        _ => partition.kept[index] || partition.far[index] || fed[index],
    };
    let rules = rules(graph, tape);
    let mut result = Written { buffers: vec![None; graph.values.len()], sums: BTreeMap::new() };
    for (index, rule) in rules.iter().enumerate() {
        let constants = graph.values[index].inputs.iter().copied();
        let constants = constants.filter(|&input| graph.values[input].kind == Kind::Constant);
        for input in constants.chain([index]) {
            if written(input) && result.buffers[input].is_none() {
                let rule = rule.filter(|_| input == index);
                emit(graph, (input, partition.kept[input]), rule, plan, &mut result);
            }
        }
    }
    // Backward is given what is kept, and computes the rest again.
    for (buffer, kept) in result.buffers.iter_mut().zip(&partition.kept) {
        *buffer = buffer.filter(|_| *kept);
    }
    result
}

/// The rule and element type of the node that each heavy value is the result of.
fn rules(graph: &Graph, tape: &Tape) -> Vec<Option<(Backward, DType)>> {
    let mut rules = vec![None; graph.values.len()];
    for (index, &result) in graph.results.iter().enumerate() {
        let node = tape.node(NodeId::new(index));
        rules[result] = Some((node.backward, node.dtype));
    }
    rules
}

fn emit(
    graph: &Graph,
    (index, kept): (usize, bool),
    rule: Option<(Backward, DType)>,
    plan: &mut Plan,
    written: &mut Written,
) {
    let value = &graph.values[index];
    let mut reads = BTreeSet::new();
    for &input in &value.inputs {
        reads.extend(written.sources(graph, input));
    }
    let category = match value.category {
        Category::Temporaries if kept => Category::Activations,
        Category::Activations if !kept => Category::Temporaries,
        other => other,
    };
    let mut bytes = value.bytes;
    let mut makes = Vec::new();
    let mut work = pointwise(Pointwise::Unary, DType::F32, 2 * value.bytes);
    let mut biased = None;
    match rule {
        Some((Backward::Linear(sizes), dtype)) => {
            biased = Some(sizes.bias);
            work = product([sizes.rows, sizes.outer, sizes.inner, 1], Pass::Forward, dtype);
            let outer = sizes.outer.next_multiple_of(alignment(dtype));
            if outer != sizes.outer {
                // `pad_mm`: the weight is padded into a copy, and the result is a part of a padded one.
                bytes = sizes.rows * outer * dtype.bytes();
                makes.push(plan.buffer(outer * sizes.inner * dtype.bytes(), Category::Temporaries));
            }
        }
        Some((Backward::Bmm(sizes), dtype)) => {
            biased = Some(false);
            work = product([sizes.m, sizes.n, sizes.k, sizes.batch], Pass::Forward, dtype);
        }
        Some((Backward::Sdpa(attention), _)) => {
            // The sums of the exponentials, for backward.
            let rows = attention.batch * attention.heads * attention.tokens;
            let sums = plan.buffer(4 * rows, Category::Activations);
            makes.push(sums);
            written.sums.insert(index, sums);
        }
        _ => {}
    }
    let buffer = plan.buffer(bytes, category);
    makes.push(buffer);
    written.buffers[index] = Some(buffer);
    plan.forward.push(Step {
        prim: value.prim,
        scope: value.scope,
        makes,
        reads: reads.into_iter().collect(),
        drops: Vec::new(),
        attention: None,
        work,
        product: biased,
    });
}
