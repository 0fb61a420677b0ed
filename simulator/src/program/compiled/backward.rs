//! The backward graph: gradients as buffers only where a library's kernel makes or reads them.
//!
//! Between such kernels a gradient is an expression over buffers: what it is computed from in the kernel that
//! needs it. Nodes come in autograd's order, the latest first, as the joint graph was traced.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::{Pass, Pointwise, Work};
use crate::order;
use crate::primitives::{pointwise, product};
use crate::tape::{
    Backward, Block, Edge, MAX_INPUTS, Node, NodeId, ParamId, Prim, Product, Scope, Tape,
};
use crate::tensor::DType;
use crate::wire::timeline::Category;

use super::forward::{Written, alignment};
use super::graph::{Graph, Kind};
use super::plan::{AttentionBackward, Plan, Step};

/// A gradient: one buffer, or what it is computed from.
#[derive(Clone, Debug, Default)]
struct Gradient {
    whole: Option<usize>,
    reads: BTreeSet<usize>,
}

impl Gradient {
    fn sources(&self) -> BTreeSet<usize> {
        self.whole.map_or_else(|| self.reads.clone(), |buffer| BTreeSet::from([buffer]))
    }
}

/// Where the loss is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossGraph {
    /// In the model's graph, which returns the logits too and so is given a gradient of them: zeros.
    Same,
    /// In a graph of its own after a graph break, whose gradient of the logits the model's graph is given.
    Own,
}

/// Emits the backward kernels; returns the buffers that live until all of them have run.
pub(super) fn backward(
    graph: &Graph,
    written: &Written,
    tape: &Tape,
    plan: &mut Plan,
    loss: LossGraph,
) -> Vec<usize> {
    let mut arriving: BTreeMap<ParamId, usize> = BTreeMap::new();
    for index in 0..tape.n_nodes() {
        for edge in tape.node(NodeId::new(index)).edges {
            if let Edge::Param { id, .. } = edge {
                *arriving.entry(id).or_default() += 1;
            }
        }
    }
    let mut emitter = Emitter {
        graph,
        written,
        tape,
        plan,
        loss,
        gradients: Vec::new(),
        of_value: vec![None; graph.values.len()],
        of_param: BTreeMap::new(),
        arriving,
        stays: Vec::new(),
    };
    emitter.run();
    emitter.stays
}

/// Bytes of a wide gradient inside a graph: its rows start at multiples of 128 bytes (`Layout._pad_strides` in
/// `torch/_inductor/ir.py`).
const fn columns(sizes: Product, dtype: DType) -> u64 {
    sizes.rows * (sizes.outer * dtype.bytes()).next_multiple_of(128)
}

struct Emitter<'a> {
    graph: &'a Graph,
    written: &'a Written,
    tape: &'a Tape,
    plan: &'a mut Plan,
    loss: LossGraph,
    gradients: Vec<Gradient>,
    of_value: Vec<Option<usize>>,
    of_param: BTreeMap<ParamId, usize>,
    arriving: BTreeMap<ParamId, usize>,
    stays: Vec<usize>,
}

impl Emitter<'_> {
    fn run(&mut self) {
        let Some(&root) = self.graph.results.last() else { return };
        self.of_value[root] = Some(self.add(Gradient::default()));
        if self.loss == LossGraph::Same {
            // `AOTDispatchAutograd` makes the gradients that autograd left out.
            if let Some(head) = self.head() {
                let zeros = self.plan.buffer(self.graph.values[head].bytes, Category::Logits);
                let scope = self.graph.values[head].scope;
                self.step(Prim::Linear, scope, Vec::from([zeros]), BTreeSet::new());
                self.stays.push(zeros);
                let gradient = Gradient { whole: None, reads: BTreeSet::from([zeros]) };
                self.of_value[head] = Some(self.add(gradient));
            }
        }
        for index in (0..self.tape.n_nodes()).rev() {
            let result = self.graph.results[index];
            if let Some(gradient) = self.of_value[result].take() {
                self.node(index, result, gradient);
            }
        }
    }

    /// The product that makes the logits.
    fn head(&self) -> Option<usize> {
        let values = self
            .graph
            .values
            .iter()
            .rposition(|value| value.kind == Kind::Heavy && value.category == Category::Logits);
        values.filter(|&value| self.graph.values[value].scope.block == Block::LmHead)
    }

    fn add(&mut self, gradient: Gradient) -> usize {
        self.gradients.push(gradient);
        self.gradients.len() - 1
    }

    fn step(&mut self, prim: Prim, scope: Scope, makes: Vec<usize>, reads: BTreeSet<usize>) {
        let bytes: u64 =
            makes.iter().chain(&reads).map(|&buffer| self.plan.buffers[buffer].bytes).sum();
        let work = pointwise(Pointwise::Unary, DType::F32, bytes);
        self.kernel((prim, scope), makes, reads, work);
    }

    fn kernel(
        &mut self,
        (prim, scope): (Prim, Scope),
        makes: Vec<usize>,
        reads: BTreeSet<usize>,
        work: Work,
    ) {
        self.plan.backward.push(Step {
            prim,
            scope: Scope { backward: true, ..scope },
            makes,
            reads: reads.into_iter().collect(),
            drops: Vec::new(),
            attention: None,
            work,
            product: matches!(prim, Prim::Linear | Prim::Addmm | Prim::Bmm).then_some(false),
        });
    }

    /// A gradient in a buffer of its own.
    fn whole(&mut self, gradient: usize, bytes: u64, category: Category, node: &Node) -> usize {
        if let Some(buffer) = self.gradients[gradient].whole {
            return buffer;
        }
        let buffer = self.plan.buffer(bytes, category);
        let reads = self.gradients[gradient].sources();
        self.step(Prim::Copy, node.scope, Vec::from([buffer]), reads);
        self.gradients[gradient].whole = Some(buffer);
        buffer
    }

    /// A gradient reaches an input of a node.
    fn give(&mut self, index: usize, argument: usize, gradient: usize) {
        let node = self.tape.node(NodeId::new(index));
        if let Edge::Param { id, .. } = node.edges[argument] {
            self.give_param(id, gradient, node);
            return;
        }
        let Some(value) = self.graph.arguments[index][argument] else { return };
        let sum = self.sum(self.of_value[value], gradient);
        self.of_value[value] = Some(sum);
    }

    fn sum(&mut self, old: Option<usize>, new: usize) -> usize {
        let Some(old) = old else { return new };
        let mut reads = self.gradients[old].sources();
        reads.extend(self.gradients[new].sources());
        self.add(Gradient { whole: None, reads })
    }

    fn give_param(&mut self, id: ParamId, gradient: usize, node: &Node) {
        let sum = self.sum(self.of_param.get(&id).copied(), gradient);
        self.of_param.insert(id, sum);
        let left = self.arriving.entry(id).or_default();
        *left = left.saturating_sub(1);
        if 0 < *left {
            return;
        }
        let param = self.tape.param(id);
        let bytes = param.elements() * param.dtype.bytes();
        let made = self.gradients[sum].whole.filter(|&made| self.plan.buffers[made].bytes != bytes);
        if let Some(made) = made {
            self.gradients[sum] = Gradient { whole: None, reads: BTreeSet::from([made]) };
        }
        let buffer = self.whole(sum, bytes, Category::Gradients, node);
        self.plan.gradients.push((id, buffer));
    }

    fn node(&mut self, index: usize, result: usize, gradient: usize) {
        let graph = self.graph;
        let node = self.tape.node(NodeId::new(index));
        let arguments = graph.arguments[index];
        match node.backward {
            Backward::Linear(sizes) => self.linear(index, result, gradient, sizes),
            Backward::Bmm(_) | Backward::Sdpa(_) | Backward::Grouped(_) | Backward::Patches(_) => {
                self.products(index, result, gradient);
            }
            Backward::Embedding { vocab, hidden, .. } => {
                // The rows are added up in fp32 (`embedding_dense_backward` in `_decomp/decompositions.py`).
                let table = self.plan.buffer(4 * vocab * hidden, Category::Temporaries);
                let reads = self.gradients[gradient].sources();
                self.step(node.prim, node.scope, Vec::from([table]), reads);
                let rows = self.add(Gradient { whole: Some(table), reads: BTreeSet::new() });
                self.give(index, 0, rows);
            }
            Backward::Add { inputs, .. } if inputs[0] == inputs[1] => {
                if arguments.iter().flatten().count() == 2
                    && self.gradients[gradient].whole.is_none()
                {
                    self.whole(gradient, graph.values[result].bytes, Category::Temporaries, node);
                }
                self.give(index, 0, gradient);
                self.give(index, 1, gradient);
            }
            Backward::Reshape { .. }
            | Backward::Transpose
            | Backward::Pass
            | Backward::Split { .. } => {
                self.give(index, 0, gradient);
            }
            _ => self.fused(index, gradient),
        }
    }

    /// What is fused: the gradient of each input is computed where it is needed, out of what this one is computed
    /// from and what backward reads for it.
    fn fused(&mut self, index: usize, gradient: usize) {
        let mut reads = self.gradients[gradient].sources();
        for &value in &self.graph.reads[index] {
            reads.extend(self.written.sources(self.graph, value));
        }
        for argument in 0..MAX_INPUTS {
            if self.tape.node(NodeId::new(index)).edges[argument].wanted() {
                let gradient = self.add(Gradient { whole: None, reads: reads.clone() });
                self.give(index, argument, gradient);
            }
        }
    }

    fn linear(&mut self, index: usize, result: usize, gradient: usize, sizes: Product) {
        let graph = self.graph;
        let node = self.tape.node(NodeId::new(index));
        let value = &graph.values[result];
        let is_head = value.category == Category::Logits;
        let category = if is_head { Category::Logits } else { Category::Temporaries };
        let dtype = node.dtype;
        let weight = graph.arguments[index][1].map(|weight| graph.base(weight));
        let (of_weight, of_input): (Vec<usize>, Vec<usize>) =
            graph.reads[index].iter().partition(|&&value| Some(graph.base(value)) == weight);
        let sources = |values: &[usize]| {
            order::set(values.iter().flat_map(|&value| self.written.sources(graph, value)))
        };
        let mut for_input: BTreeSet<usize> = sources(&of_weight);
        let mut for_weight: BTreeSet<usize> = sources(&of_input);
        let pads = !sizes.outer.is_multiple_of(alignment(dtype));
        if pads {
            let bytes =
                sizes.outer.next_multiple_of(alignment(dtype)) * sizes.inner * dtype.bytes();
            let weight = self.plan.buffer(bytes, Category::Temporaries);
            self.step(Prim::Copy, node.scope, Vec::from([weight]), for_input);
            for_input = BTreeSet::from([weight]);
        }
        let is_own = is_head && self.loss == LossGraph::Own;
        let bytes = if is_head && !is_own { columns(sizes, dtype) } else { value.bytes };
        let incoming = self.whole(gradient, bytes, category, node);
        for_weight.insert(incoming);
        if pads {
            let gradient = (incoming, gradient);
            for_input.insert(self.padded(sizes, gradient, node, &mut for_weight));
        } else {
            for_input.insert(incoming);
        }
        let Product { rows, inner, outer, .. } = sizes;
        let work = |pass, sizes: [u64; 3]| product([sizes[0], sizes[1], sizes[2], 1], pass, dtype);
        // The output projection's input comes first: its copies die with it.
        let mut order = [(1, for_weight), (0, for_input)];
        if is_head {
            order.reverse();
        }
        for (argument, reads) in order {
            if !node.edges[argument].wanted() {
                continue;
            }
            let (bytes, work) = if argument == 0 {
                (rows * inner, work(Pass::InputGrad, [rows, inner, outer]))
            } else {
                (outer * inner, work(Pass::WeightGrad, [outer, inner, rows]))
            };
            let made = self.plan.buffer(bytes * dtype.bytes(), Category::Temporaries);
            self.own(index, argument, made);
            self.kernel((node.prim, node.scope), Vec::from([made]), reads, work);
            let made = self.add(Gradient { whole: Some(made), reads: BTreeSet::new() });
            self.give(index, argument, made);
        }
        if sizes.bias && node.edges[2].wanted() {
            let sum = self.add(Gradient { whole: None, reads: BTreeSet::from([incoming]) });
            self.give(index, 2, sum);
        }
    }

    /// A gradient that goes straight to a parameter is one from its birth.
    fn own(&mut self, index: usize, argument: usize, buffer: usize) {
        if let Edge::Param { .. } = self.tape.node(NodeId::new(index)).edges[argument] {
            self.plan.buffers[buffer].category = Category::Gradients;
        }
    }

    /// The copy that `pad_mm` makes of a gradient whose columns are not aligned, for the product with the weight.
    fn padded(
        &mut self,
        sizes: Product,
        (incoming, gradient): (usize, usize),
        node: &Node,
        for_weight: &mut BTreeSet<usize>,
    ) -> usize {
        let dtype = node.dtype;
        let bytes = columns(sizes, dtype);
        let copy = self.plan.buffer(bytes, Category::Logits);
        let mut makes = Vec::from([copy]);
        let mut reads = BTreeSet::from([incoming]);
        if self.loss == LossGraph::Own {
            // What a graph is given lives until it has run.
            self.stays.push(incoming);
            if dtype.is_half() {
                let transposed = self.plan.buffer(bytes, Category::Logits);
                makes.push(transposed);
                for_weight.insert(transposed);
            }
        } else if !dtype.is_half() {
            // In fp32 both layouts of the gradient are computed from the logits.
            reads.extend(&self.gradients[gradient].reads);
        }
        self.step(Prim::Copy, node.scope, makes, reads);
        copy
    }

    /// Products of two computed values, attention, convolutions: one kernel, or one for each input.
    fn products(&mut self, index: usize, result: usize, gradient: usize) {
        let graph = self.graph;
        let node = self.tape.node(NodeId::new(index));
        let dtype = graph.gradient_dtype(node);
        let bytes = graph.values[result].bytes / node.dtype.bytes() * dtype.bytes();
        let incoming = self.whole(gradient, bytes, Category::Temporaries, node);
        let mut reads = BTreeSet::from([incoming]);
        for &value in &graph.reads[index] {
            reads.extend(self.written.sources(graph, value));
        }
        reads.extend(self.written.sums.get(&result));
        let mut makes = Vec::new();
        let mut given = Vec::new();
        for argument in 0..MAX_INPUTS {
            let Some(value) = graph.arguments[index][argument] else { continue };
            let bytes = graph.values[graph.base(value)].bytes;
            let bytes = match node.backward {
                // Parts of one projection have its bytes together.
                Backward::Sdpa(attention) => {
                    let heads = if argument == 0 { attention.heads } else { attention.kv_heads };
                    let tokens = if argument == 0 { attention.tokens } else { attention.kv_tokens };
                    let of_bias = argument == 3;
                    let part =
                        attention.batch * heads * tokens * attention.head_dim * node.dtype.bytes();
                    if of_bias { bytes } else { part }
                }
                Backward::Bmm(sizes) => {
                    let columns = if argument == 0 { sizes.m } else { sizes.n };
                    sizes.batch * columns * sizes.k * dtype.bytes()
                }
                _ => bytes,
            };
            let made = self.plan.buffer(bytes, Category::Temporaries);
            self.own(index, argument, made);
            makes.push(made);
            given.push((argument, made));
        }
        self.step(node.prim, node.scope, makes, reads);
        if let (Backward::Sdpa(attention), Some(step)) =
            (node.backward, self.plan.backward.last_mut())
        {
            step.attention = Some(AttentionBackward { attention, dtype: node.dtype });
        }
        for (argument, made) in given {
            let made = self.add(Gradient { whole: Some(made), reads: BTreeSet::new() });
            self.give(index, argument, made);
        }
    }
}
