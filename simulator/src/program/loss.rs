//! From the last hidden state to the loss, as each stack writes it.
//!
//! Sources: `ForCausalLMLoss` in transformers 5.17 (`loss/loss_utils.py`); `LlamaForCausalLM.forward`
//! in transformers 4.38 (`models/llama/modeling_llama.py`).

use crate::primitives::FusedLossShape;
use crate::scenario::{Task, limits};
use crate::tape::{Block, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::scenario::Loss;
use crate::wire::timeline::{Category, PhaseKind};

use super::Process;

impl Process<'_> {
    /// The loss over what the model gave: its last hidden state or its logits, as its task says.
    pub(super) fn loss(&mut self, output: Tensor, labels: &Tensor, micro_batch: u32) -> Tensor {
        match (self.family.task(), self.scenario.stack.loss) {
            (Task::CausalLm, Loss::FusedLinear) => self.fused_loss(output, labels, micro_batch),
            (Task::CausalLm, Loss::Transformers4) => {
                self.loss_of_transformers_4(output, labels, micro_batch)
            }
            (Task::CausalLm, Loss::Transformers5) => {
                self.loss_of_transformers_5(output, labels, micro_batch)
            }
            (Task::ClassificationInF32, _) => self.loss_in_f32(output, labels, micro_batch),
            (Task::CausalLm, Loss::Chunked | Loss::Narrow) => {
                self.loss_in_chunks(output, labels, micro_batch)
            }
            (Task::TokenLabels | Task::Classification, _) => {
                self.loss_where_labels_stand(output, labels, micro_batch)
            }
        }
    }

    /// `CrossEntropyLoss()(logits.view(-1, classes), labels.view(-1))`.
    fn loss_where_labels_stand(
        &mut self,
        output: Tensor,
        labels: &Tensor,
        micro_batch: u32,
    ) -> Tensor {
        let tape = &mut self.tape;
        let logits = self.model.head(tape, &output);
        tape.categorise(logits.storage, Category::Logits);
        tape.phase(PhaseKind::Loss, micro_batch);
        tape.enter(Block::Loss, "cross_entropy");
        let rows = Shape::new([labels.shape.elements(), logits.shape.last()]);
        let flat = tape.view(&logits, rows);
        let target = tape.share(labels);
        let loss = tape.cross_entropy(&flat, target);
        for tensor in [flat, output] {
            tape.release(tensor);
        }
        returned(tape, logits);
        loss
    }

    /// `F.cross_entropy(logits.float(), labels)`; the logits outlive autocast.
    fn loss_in_f32(&mut self, logits: Tensor, labels: &Tensor, micro_batch: u32) -> Tensor {
        let tape = &mut self.tape;
        tape.categorise(logits.storage, Category::Logits);
        tape.phase(PhaseKind::Loss, micro_batch);
        tape.enter(Block::Loss, "cross_entropy");
        let wide = tape.cast(&logits, DType::F32);
        let target = tape.share(labels);
        let loss = tape.cross_entropy(&wide, target);
        tape.release(wide);
        self.late = Some(logits);
        loss
    }

    fn logits(&mut self, hidden: &Tensor) -> Tensor {
        self.tape.enter(Block::LmHead, "lm_head");
        let logits = self.tape.linear(hidden, self.model.lm_head(), self.model.lm_head_bias());
        self.tape.categorise(logits.storage, Category::Logits);
        self.model.finish_logits(&mut self.tape, logits)
    }

    fn loss_of_transformers_5(
        &mut self,
        hidden: Tensor,
        labels: &Tensor,
        micro_batch: u32,
    ) -> Tensor {
        let logits = self.logits(&hidden);
        let tape = &mut self.tape;
        tape.phase(PhaseKind::Loss, micro_batch);
        tape.enter(Block::Loss, "logits.float()");
        let wide = tape.cast(&logits, DType::F32);
        tape.categorise(wide.storage, Category::Logits);
        tape.enter(Block::Loss, "shift_labels");
        let &[batch, tokens] = labels.shape.sizes() else { unreachable!("labels are a matrix") };
        let padded = tape.helper(Shape::new([batch, tokens + 1]), DType::I64, Prim::Copy);
        let shifted = tape.drop_first_token(&padded);
        tape.enter(Block::Loss, "cross_entropy");
        let rows = Shape::new([batch * tokens, logits.shape.last()]);
        let flat = tape.view(&wide, rows);
        let loss = tape.cross_entropy(&flat, shifted);
        for tensor in [flat, wide, padded, hidden] {
            tape.release(tensor);
        }
        returned(tape, logits);
        loss
    }

    fn loss_of_transformers_4(
        &mut self,
        hidden: Tensor,
        labels: &Tensor,
        micro_batch: u32,
    ) -> Tensor {
        let logits = self.logits(&hidden);
        let tape = &mut self.tape;
        tape.phase(PhaseKind::Loss, micro_batch);
        tape.enter(Block::Loss, "logits.float()");
        let wide = tape.cast(&logits, DType::F32);
        tape.categorise(wide.storage, Category::Logits);
        tape.release(logits);
        let &[batch, tokens] = labels.shape.sizes() else { unreachable!("labels are a matrix") };
        let vocab = wide.shape.last();
        tape.enter(Block::Loss, "shift_logits");
        let shift_logits = tape.drop_last_token(&wide);
        tape.categorise(shift_logits.storage, Category::Logits);
        tape.enter(Block::Loss, "shift_labels");
        let shifted = tape.drop_first_token(labels);
        tape.enter(Block::Loss, "cross_entropy");
        let flat = tape.view(&shift_logits, Shape::new([batch * (tokens - 1), vocab]));
        let loss = tape.cross_entropy(&flat, shifted);
        for tensor in [flat, shift_logits, hidden] {
            tape.release(tensor);
        }
        returned(tape, wide);
        loss
    }

    /// `chunked_cross_entropy`: the loss of 128 tokens at a time, in the logits' element type. Their list
    /// lives on in the training loop, through backward.
    ///
    /// # Source
    ///
    /// litgpt: `litgpt/utils.py`, `fit` of `litgpt/finetune/lora.py` (`lm_head_chunk_size=128`: the
    /// output projection too goes over 128 tokens of each sequence at a time) and of
    /// `litgpt/finetune/full.py` (the logits are made at once and split by rows).
    ///
    /// # Assumptions
    ///
    /// Parts are slices, not outputs of one `split`; the losses are added up, not concatenated.
    fn loss_in_chunks(&mut self, hidden: Tensor, labels: &Tensor, micro_batch: u32) -> Tensor {
        const CHUNK: u64 = limits::LOSS_CHUNK;
        let &[batch, tokens] = labels.shape.sizes() else { unreachable!("labels are a matrix") };
        let (chunked, width) = (self.scenario.stack.loss == Loss::Chunked, hidden.shape.last());
        let sizes =
            |all: u64| (0..all.div_ceil(CHUNK)).map(move |index| CHUNK.min(all - index * CHUNK));
        let mut chunks = Vec::new();
        if chunked {
            for size in sizes(tokens) {
                let part = self.tape.slice_of(&hidden, Shape::new([batch, size, width]));
                let logits = self.logits(&part);
                self.tape.release(part);
                chunks.push(logits);
            }
        } else {
            chunks.push(self.logits(&hidden));
        }
        let tape = &mut self.tape;
        tape.phase(PhaseKind::Loss, micro_batch);
        let mut whole = None;
        if let (false, Some(logits)) = (chunked, chunks.first()) {
            tape.enter(Block::Loss, "logits[..., :-1, :]");
            let shifted = tape.drop_last_token(logits);
            let rows = Shape::new([batch * (tokens - 1), logits.shape.last()]);
            whole = Some(tape.view(&shifted, rows));
            tape.release(shifted);
        }
        tape.enter(Block::Loss, "chunked_cross_entropy");
        let all = if chunked { tokens } else { batch * (tokens - 1) };
        let mut total: Option<Tensor> = None;
        for (index, size) in sizes(all).enumerate() {
            let flat = if let Some(whole) = &whole {
                tape.slice_of(whole, Shape::new([size, whole.shape.last()]))
            } else {
                let logits = &chunks[index];
                tape.view(logits, Shape::new([batch * size, logits.shape.last()]))
            };
            let target = tape.share(labels);
            let loss = tape.cross_entropy(&flat, target);
            tape.release(flat);
            total = Some(match total {
                Some(sum) => {
                    let next = tape.add(&sum, &loss);
                    tape.release(sum);
                    tape.release(loss);
                    next
                }
                None => loss,
            });
        }
        tape.release(hidden);
        if let Some(tensor) = whole {
            tape.release(tensor);
        }
        tape.hook(|hooks, tape| hooks.after_model(tape));
        self.returned = chunks;
        total.expect("a sequence has tokens")
    }

    fn fused_loss(&mut self, hidden: Tensor, labels: &Tensor, micro_batch: u32) -> Tensor {
        let lm_head = self.model.lm_head();
        let &[vocab, width] = self.tape.param(lm_head).shape.sizes() else {
            unreachable!("the output projection is a matrix")
        };
        let tape = &mut self.tape;
        tape.phase(PhaseKind::Loss, micro_batch);
        tape.enter(Block::Loss, "shift_labels");
        let &[batch, tokens] = labels.shape.sizes() else { unreachable!("labels are a matrix") };
        let padded = tape.helper(Shape::new([batch, tokens + 1]), DType::I64, Prim::Copy);
        let shifted = tape.drop_first_token(&padded);
        tape.enter(Block::Loss, "fused_linear_cross_entropy");
        let shape = FusedLossShape { rows: batch * tokens, hidden: width, vocab };
        let loss = tape.fused_linear_cross_entropy(&hidden, lm_head, shape);
        for tensor in [shifted, padded, hidden] {
            tape.release(tensor);
        }
        tape.hook(|hooks, tape| hooks.after_model(tape));
        loss
    }
}

/// The model's forward has returned its logits beside the loss: its hooks see them, then they go.
fn returned(tape: &mut Tape, logits: Tensor) {
    tape.hook(|hooks, tape| hooks.after_model(tape));
    tape.release(logits);
}
