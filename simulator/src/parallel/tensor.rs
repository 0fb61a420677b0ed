//! `parallelize_module` over the linear layers of a model: each rank keeps rows or columns of a weight.
//!
//! # Source
//!
//! `torch/distributed/tensor/parallel/style.py`, `_api.py` (`distribute_tensor`) and
//! `placement_types.py` (`Shard._shard_tensor`), PyTorch 2.11.

use crate::tape::{Block, ParamId, Prim, Split, StorageId, Tape};
use crate::tensor::Shape;
use crate::wire::timeline::Category;

/// Linear layers whose outputs are dealt out, with the module that they are in.
const COLUMN_WISE: [[&str; 2]; 5] = [
    ["self_attn", "q_proj"],
    ["self_attn", "k_proj"],
    ["self_attn", "v_proj"],
    ["mlp", "gate_proj"],
    ["mlp", "up_proj"],
];
/// Linear layers whose inputs are.
const ROW_WISE: [[&str; 2]; 2] = [["self_attn", "o_proj"], ["mlp", "down_proj"]];
/// The output projection: column-wise, with the whole result on every rank.
const HEAD: &str = "lm_head";

/// Deals the weights of a model that was built whole out over `ranks`, layer after layer. The output
/// projection of a model that ties it to its embedding becomes a parameter of its own.
pub fn parallelize(tape: &mut Tape, ranks: u64, tied: Option<ParamId>) {
    tape.enter(Block::Parallel, "parallelize_module");
    for id in (0..tape.n_params()).map(ParamId::new) {
        let Some(split) = plan(&tape.param(id).name, ranks) else { continue };
        tape.enter_layer(tape.param(id).layer);
        distribute(tape, id, split);
        tape.enter_layer(None);
    }
    if let Some(embedding) = tied {
        let (shape, dtype) = (tape.param(embedding).shape, tape.param(embedding).dtype);
        let split = Split::Columns { ranks, gathered: true };
        let Some((local, _)) = part(split, shape) else { return };
        let head = tape.new_parameter(format!("{HEAD}.weight"), local, dtype);
        tape.param_mut(head).split = Some(split);
        tape.param_mut(embedding).untied = Some(head);
    }
}

/// The plan that torchtitan and transformers' `base_model_tp_plan` have for a Llama layer. Experts stay
/// whole on every rank.
fn plan(name: &str, ranks: u64) -> Option<Split> {
    let mut path = name.rsplit('.').skip(1);
    let module = path.next()?;
    if module == HEAD {
        return Some(Split::Columns { ranks, gathered: true });
    }
    let module = [path.next()?, module];
    if COLUMN_WISE.contains(&module) {
        return Some(Split::Columns { ranks, gathered: false });
    }
    ROW_WISE.contains(&module).then_some(Split::Rows { ranks })
}

/// The rank's shape of a weight or bias, and how many parts must be copied to be contiguous.
fn part(split: Split, shape: Shape) -> Option<(Shape, u64)> {
    match (split, shape.sizes()) {
        (Split::Columns { ranks, .. }, &[outer]) => Some((Shape::new([outer / ranks]), 0)),
        (Split::Columns { ranks, .. }, &[outer, inner]) => {
            Some((Shape::new([outer / ranks, inner]), 0))
        }
        (Split::Rows { ranks }, &[outer, inner]) => {
            Some((Shape::new([outer, inner / ranks]), ranks))
        }
        _ => None,
    }
}

/// `distribute_tensor(param, mesh, [Shard(dim)])`: every rank's part is made contiguous, which copies
/// columns; the own one is received into a new tensor; then the whole parameter goes.
fn distribute(tape: &mut Tape, id: ParamId, split: Split) {
    let (shape, dtype, whole) = {
        let param = tape.param(id);
        (param.shape, param.dtype, param.storage)
    };
    let Some((local, copies)) = part(split, shape) else {
        tape.param_mut(id).split = Some(Split::Whole);
        return;
    };
    let bytes = local.elements() * dtype.bytes();
    let parts: Vec<StorageId> = (0..copies).map(|_| tape.allocate(bytes, Prim::Copy)).collect();
    let own = tape.allocate(bytes, Prim::Parameter);
    tape.own(own, id, Category::Weights);
    for part in parts.into_iter().rev() {
        tape.release_storage(part);
    }
    tape.release_storage(whole);
    let param = tape.param_mut(id);
    param.storage = own;
    param.shape = local;
    param.split = Some(split);
}
