//! The nodes that have not run, in the order in which they were recorded.

use core::ops::{Index, IndexMut, Range};
use std::collections::VecDeque;

use super::node::{Node, NodeId};

/// Nodes by their numbers. Those that ran first are forgotten: where many micro-batches follow each other,
/// only the graphs that wait take room.
#[derive(Debug)]
pub(super) struct Nodes {
    kept: VecDeque<Node>,
    forgotten: usize,
}

impl Nodes {
    /// No nodes, and room for some layers'.
    pub(super) fn roomy() -> Self {
        Self { kept: VecDeque::with_capacity(256), forgotten: 0 }
    }

    /// The number of the next node.
    pub(super) fn next(&self) -> usize {
        self.forgotten + self.kept.len()
    }

    /// Adds a node.
    pub(super) fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId::new(self.next());
        self.kept.push_back(node);
        id
    }

    /// The nodes of these numbers, none of which is forgotten.
    pub(super) fn range(&self, numbers: Range<usize>) -> impl Iterator<Item = &Node> {
        self.kept.range(numbers.start - self.forgotten..numbers.end - self.forgotten)
    }

    /// Forgets the oldest nodes, as long as they have run.
    pub(super) fn forget_done(&mut self) {
        while self.kept.pop_front_if(|node| node.done).is_some() {
            self.forgotten += 1;
        }
    }

    /// Forgets the nodes from this number on, which all have run: their numbers are free again.
    pub(super) fn forget_from(&mut self, number: usize) {
        debug_assert!(self.range(number..self.next()).all(|node| node.done), "a node waits");
        self.kept.truncate(number - self.forgotten);
    }

    /// Forgets all, for a new record.
    ///
    /// # Panics
    ///
    /// When a node has not run: a bug of a block or rule.
    pub(super) fn clear(&mut self) {
        assert!(self.kept.iter().all(|node| node.done), "every node has run");
        self.kept.clear();
        self.forgotten = 0;
    }
}

impl Index<NodeId> for Nodes {
    type Output = Node;

    fn index(&self, id: NodeId) -> &Node {
        &self.kept[id.index() - self.forgotten]
    }
}

impl IndexMut<NodeId> for Nodes {
    fn index_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.kept[id.index() - self.forgotten]
    }
}
