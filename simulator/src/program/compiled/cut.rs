//! What is kept for backward: the minimum cut of the partitioner.
//!
//! # Source
//!
//! `solve_min_cut` in `torch/_functorch/partitioners.py` (PyTorch 2.11) with the defaults of
//! `torch/_functorch/config.py`: an operation off the list of recomputable ones, one whose result a library's
//! kernel reads in backward, a reduction, and the later of two users that a library's kernel lies between are
//! not recomputed; a value costs `bytes · 1.1^distance`, twice that if no kernel would have to write it anyway.

use crate::order;
use std::collections::VecDeque;

use super::graph::{Graph, Kind};

/// Capacity that no cut takes.
const UNLIMITED: u64 = u64::MAX / 4;

/// Which values are kept, and which are read again after a library's kernel.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) kept: Vec<bool>,
    pub(super) far: Vec<bool>,
}

pub(super) fn partition(graph: &Graph) -> Partition {
    let n = graph.values.len();
    let (banned, far) = banned(graph);
    let distances = distances(graph);
    let mut network = Network::new(2 * n + 2);
    let (source, sink) = (2 * n, 2 * n + 1);
    for (index, value) in graph.values.iter().enumerate() {
        let (inside, outside) = (2 * index, 2 * index + 1);
        network.connect(inside, outside, weight(graph, index, distances[index]));
        if banned[index] {
            network.connect(source, inside, UNLIMITED);
        }
        if value.required {
            network.connect(outside, sink, UNLIMITED);
        }
        for &user in &value.users {
            network.connect(outside, 2 * user, UNLIMITED);
        }
    }
    network.saturate(source, sink);
    let reaches = network.reaching(sink);
    let kept = (0..n).map(|index| !reaches[2 * index] && reaches[2 * index + 1]).collect();
    Partition { kept, far }
}

fn fuse(graph: &Graph, from: usize, to: usize) -> bool {
    graph.values[from].kind.fuses() && graph.values[to].kind.fuses()
}

/// `get_node_weight`: bytes, dearer the farther from backward, twice where no kernel writes the value.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "weights only order values; they stay far below 2^53"
)]
fn weight(graph: &Graph, index: usize, distance: u32) -> u64 {
    let value = &graph.values[index];
    if value.kind == Kind::View {
        return UNLIMITED;
    }
    let factor = (0..distance.clamp(1, 100)).fold(1.0, |factor, _| factor * 1.1);
    let weight = (value.bytes as f64 * factor) as u64;
    let written =
        value.whole || value.late || !value.users.iter().all(|&user| fuse(graph, index, user));
    if written || !value.kind.fuses() { weight } else { 2 * weight }
}

/// Operations between a value and the first that backward does: `dist_from_bw`.
fn distances(graph: &Graph) -> Vec<u32> {
    let mut distances = vec![u32::MAX; graph.values.len()];
    for (index, value) in graph.values.iter().enumerate().rev() {
        let nearest = value.users.iter().map(|&user| distances[user].saturating_add(1)).min();
        distances[index] = if value.required { 1 } else { nearest.unwrap_or(u32::MAX) };
    }
    distances
}

/// What is not recomputed, and what is used on both sides of a library's kernel.
fn banned(graph: &Graph) -> (Vec<bool>, Vec<bool>) {
    let never = |index: usize| {
        let value = &graph.values[index];
        match value.kind {
            Kind::View => false,
            Kind::Pointwise => value.whole,
            _ => true,
        }
    };
    let mut banned: Vec<bool> = (0..graph.values.len()).map(never).collect();
    let mut far = vec![false; graph.values.len()];
    for (index, value) in graph.values.iter().enumerate() {
        let in_forward = |user: &&usize| !graph.values[**user].late;
        let users: Vec<usize> = value.users.iter().filter(in_forward).copied().collect();
        let Some(&last) = users.iter().max() else { continue };
        let first = first_unfused(graph, &users, last);
        for &user in users.iter().filter(|&&user| first < user) {
            if fuse(graph, index, user) {
                banned[user] |= graph.values[user].kind != Kind::View;
                far[index] = true;
            }
        }
    }
    (banned, far)
}

/// `find_first_unfusible`: the first value, up to `last`, that stands in another kernel than what leads
/// from the users to it.
fn first_unfused(graph: &Graph, users: &[usize], last: usize) -> usize {
    let mut ahead = order::set(users.iter().map(|&user| (user, true)));
    while let Some((value, fused)) = ahead.pop_first() {
        if !fused {
            return value;
        }
        for &user in graph.values[value].users.iter().filter(|&&user| user <= last) {
            ahead.insert((user, fuse(graph, value, user)));
        }
    }
    last
}

/// A flow network: edges in pairs, each with its reverse beside it.
struct Network {
    /// Target and what is left of the capacity.
    edges: Vec<(usize, u64)>,
    of: Vec<Vec<usize>>,
}

impl Network {
    fn new(n: usize) -> Self {
        Self { edges: Vec::new(), of: vec![Vec::new(); n] }
    }

    fn connect(&mut self, from: usize, to: usize, capacity: u64) {
        self.of[from].push(self.edges.len());
        self.edges.push((to, capacity));
        self.of[to].push(self.edges.len());
        self.edges.push((from, 0));
    }

    /// Dinic's algorithm.
    fn saturate(&mut self, source: usize, sink: usize) {
        loop {
            let levels = self.levels(source);
            if levels[sink] == u32::MAX {
                return;
            }
            let mut next = vec![0; self.of.len()];
            while self.augment(source, sink, &levels, &mut next) {}
        }
    }

    fn levels(&self, source: usize) -> Vec<u32> {
        let mut levels = vec![u32::MAX; self.of.len()];
        levels[source] = 0;
        let mut queue = VecDeque::from([source]);
        while let Some(node) = queue.pop_front() {
            for &edge in &self.of[node] {
                let (to, left) = self.edges[edge];
                if 0 < left && levels[to] == u32::MAX {
                    levels[to] = levels[node] + 1;
                    queue.push_back(to);
                }
            }
        }
        levels
    }

    /// One path along rising levels, filled; `next` is the first edge of each node still worth a try.
    fn augment(&mut self, source: usize, sink: usize, levels: &[u32], next: &mut [usize]) -> bool {
        let mut path: Vec<usize> = Vec::new();
        let mut node = source;
        while node != sink {
            if let Some(&edge) = self.of[node].get(next[node]) {
                let (to, left) = self.edges[edge];
                if 0 < left && levels[to] == levels[node] + 1 {
                    path.push(edge);
                    node = to;
                } else {
                    next[node] += 1;
                }
            } else {
                let Some(edge) = path.pop() else { return false };
                node = self.edges[edge ^ 1].0;
                next[node] += 1;
            }
        }
        let flow = path.iter().map(|&edge| self.edges[edge].1).min().unwrap_or(0);
        for edge in path {
            self.edges[edge].1 -= flow;
            self.edges[edge ^ 1].1 += flow;
        }
        0 < flow
    }

    /// Nodes from which something could still flow to the sink.
    fn reaching(&self, sink: usize) -> Vec<bool> {
        let mut reaching = vec![false; self.of.len()];
        reaching[sink] = true;
        let mut queue = VecDeque::from([sink]);
        while let Some(node) = queue.pop_front() {
            for &edge in &self.of[node] {
                let from = self.edges[edge].0;
                if 0 < self.edges[edge ^ 1].1 && !reaching[from] {
                    reaching[from] = true;
                    queue.push_back(from);
                }
            }
        }
        reaching
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ways from source to sink; the cut is the cheapest edge of each, the later one at a tie.
    #[test]
    fn a_minimum_cut_lies_nearest_to_the_sink() {
        let mut network = Network::new(6);
        for (from, to, capacity) in
            [(0, 1, UNLIMITED), (1, 2, 5), (2, 5, 5), (0, 3, 2), (3, 4, 7), (4, 5, UNLIMITED)]
        {
            network.connect(from, to, capacity);
        }
        network.saturate(0, 5);
        assert_eq!(network.reaching(5), [false, false, false, true, true, true]);
    }
}
