//! What a training loop reads: ids and labels of each micro-batch, positions and mask made once a
//! step.

use crate::tape::{Block, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::timeline::Category;

use super::rank::Rank;

/// An iterator over micro-batches.
#[derive(Debug, Default)]
pub(super) struct Data {
    positions: Option<Tensor>,
    mask: Option<Tensor>,
    ids: Option<Tensor>,
}

/// A micro-batch: its ids, labels, positions, mask.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) ids: Tensor,
    pub(super) labels: Tensor,
    pub(super) positions: Tensor,
    pub(super) mask: Tensor,
}

impl Data {
    /// The next micro-batch. The mask is true above the diagonal, and empty where none is made.
    pub(super) fn next(&mut self, tape: &mut Tape, rank: &Rank, masked: bool) -> Item {
        let (batch, tokens) = (rank.batch, rank.tokens);
        let ids_shape = Shape::new([batch, tokens]);
        let input = |tape: &mut Tape, module, shape, dtype| {
            tape.enter(Block::Data, module);
            let tensor = tape.helper(shape, dtype, Prim::Input);
            tape.categorise(tensor.storage, Category::Inputs);
            tensor
        };
        if self.positions.is_none() {
            let row = input(tape, "position_ids", Shape::new([1, tokens]), DType::I64);
            let positions = if batch == 1 {
                row
            } else {
                let positions = input(tape, "position_ids", ids_shape, DType::I64);
                tape.release(row);
                positions
            };
            self.positions = Some(positions);
            let side = if masked { tokens } else { 0 };
            let square = Shape::new([1, 1, side, side]);
            let ones = input(tape, "attention_mask", square, DType::Bool);
            self.mask = Some(input(tape, "attention_mask", square, DType::Bool));
            tape.release(ones);
        }
        let ids = input(tape, "input_ids", ids_shape, DType::I64);
        if let Some(old) = self.ids.take() {
            tape.release(old);
        }
        let labels = input(tape, "labels", ids_shape, DType::I64);
        let [positions, mask] = [&self.positions, &self.mask].map(|kept| {
            let kept = kept.as_ref().expect("made with the first micro-batch");
            tape.share(kept)
        });
        let item = Item { ids: tape.share(&ids), labels, positions, mask };
        self.ids = Some(ids);
        item
    }

    /// Lets go of what it holds, in the order of its names.
    pub(super) fn end(self, tape: &mut Tape) {
        for tensor in [self.positions, self.mask, self.ids].into_iter().flatten() {
            tape.release(tensor);
        }
    }
}
