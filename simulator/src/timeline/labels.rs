//! The string table that the timeline's columns refer to.

use crate::tape::{Block, Prim};

/// Labels in fixed order: primitives, their backwards, blocks, then names as they come.
#[derive(Debug)]
pub(super) struct Labels {
    pub(super) table: Vec<String>,
    /// Module names seen, by the address of their text.
    modules: Vec<(&'static str, u32)>,
    last: usize,
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "tables of labels have far fewer than 2^32 rows"
)]
impl Labels {
    pub(super) fn new() -> Self {
        let prims = Prim::ALL.iter().map(|prim| prim.word().to_owned());
        let backwards = Prim::ALL.iter().map(|prim| format!("{}.backward", prim.word()));
        let blocks = Block::ALL.iter().map(|block| block.word().to_owned());
        let table = prims.chain(backwards).chain(blocks).collect();
        Self { table, modules: Vec::new(), last: 0 }
    }

    pub(super) const fn prim(prim: Prim, backward: bool) -> u32 {
        prim as u32 + if backward { Prim::ALL.len() as u32 } else { 0 }
    }

    pub(super) const fn block(block: Block) -> u32 {
        2 * Prim::ALL.len() as u32 + block as u32
    }

    /// A new label.
    pub(super) fn push(&mut self, text: String) -> u32 {
        self.table.push(text);
        self.table.len() as u32 - 1
    }

    /// The label of a module; the same text is looked up once.
    pub(super) fn module(&mut self, module: &'static str) -> u32 {
        if let Some(&(known, label)) = self.modules.get(self.last)
            && core::ptr::eq(known, module)
        {
            return label;
        }
        if let Some(index) = self.modules.iter().position(|&(known, _)| known == module) {
            self.last = index;
            return self.modules[index].1;
        }
        let label = self.push(module.to_owned());
        self.last = self.modules.len();
        self.modules.push((module, label));
        label
    }
}
