//! Attaching adapters to a model whose own parameters then stay as they are.

use crate::primitives::quantised_bytes;
use crate::scenario::{Family, Projection};
use crate::tape::{self, Block, ParamId, Prim, Shard, StorageId, Tape};
use crate::tensor::Shape;
use crate::wire::scenario::{Adapter, BaseFormat};
use crate::wire::timeline::Category;

/// A projection that gets an adapter.
struct Target {
    weight: ParamId,
    /// Its module's path.
    module: String,
    layer: Option<u32>,
    /// Shapes of `lora_A` and `lora_B`.
    shapes: [Shape; 2],
}

/// `get_peft_model(model, LoraConfig(r=rank, target_modules=targets, lora_dropout=dropout))`.
///
/// # Source
///
/// peft 0.21: `LoraLayer.update_layer` makes both factors on the host and moves them to the base
/// layer's device and dtype (`_move_adapter_to_device_of_base_layer`), module after module. Then
/// `cast_adapter_dtype` (`tuners/tuners_utils.py`) replaces each half-precision one by an fp32 copy;
/// its loop holds a factor until it comes to the next.
pub(super) fn attach(tape: &mut Tape, family: &dyn Family, adapter: &Adapter) {
    tape.enter(Block::Data, "get_peft_model");
    let base: Vec<ParamId> = (0..tape.n_params()).map(ParamId::new).collect();
    let targets: Vec<Target> =
        base.iter().filter_map(|&weight| target(tape, family, weight, adapter)).collect();
    for &id in &base {
        tape.param_mut(id).trainable = false;
    }
    quantise(tape, family, adapter);
    if adapter.stable_embedding {
        replace_embedding(tape);
    }
    let mut narrow = Vec::new();
    for target in &targets {
        let dtype = tape.param(target.weight).dtype;
        if dtype != tape::Adapter::dtype(adapter.autocast, dtype) {
            tape.enter_layer(target.layer);
            for shape in target.shapes {
                narrow.push(tape.allocate(shape.elements() * dtype.bytes(), Prim::Parameter));
            }
        }
    }
    let mut narrow = narrow.into_iter();
    let mut previous = StorageId::NONE;
    for target in targets {
        let [lora_a, lora_b] = [("lora_A", 0), ("lora_B", 1)].map(|(factor, index)| {
            tape.enter_layer(target.layer);
            let next = narrow.next().unwrap_or(StorageId::NONE);
            tape.release_storage(core::mem::replace(&mut previous, next));
            let name = format!("{}.{factor}.default.weight", target.module);
            let dtype = tape::Adapter::dtype(adapter.autocast, tape.param(target.weight).dtype);
            tape.new_parameter_of(target.layer, name, target.shapes[index], dtype)
        });
        tape.param_mut(target.weight).adapter =
            Some(tape::Adapter { lora_a, lora_b, dropout: adapter.dropout });
    }
    tape.release_storage(previous);
    tape.enter_layer(None);
}

/// `StableEmbedding` takes over the embedding's weight; the old module stays, and the new weight needs a
/// gradient, but came after the optimizer.
///
/// Source: `litgpt/finetune/lora.py` of October 2024 and later; `StableEmbedding`'s norm is left out.
fn replace_embedding(tape: &mut Tape) {
    let names = ["embed_tokens.weight", "wte.weight", "embed_in.weight", "word_embeddings.weight"];
    let mut ids = (0..tape.n_params()).map(ParamId::new);
    let found = ids.find(|&id| names.iter().any(|name| tape.param(id).name.ends_with(name)));
    let Some(id) = found else { return };
    let param = tape.param_mut(id);
    (param.trainable, param.unoptimized) = (true, true);
    let old = param.elements() * param.dtype.bytes();
    tape.new_buffer("", old);
}

/// `Params4bit.cuda`, one linear layer after the other: codes and scales are made, the weight goes.
fn quantise(tape: &mut Tape, family: &dyn Family, adapter: &Adapter) {
    if adapter.base == BaseFormat::Whole {
        return;
    }
    let projections = family.projections();
    for id in (0..tape.n_params()).map(ParamId::new) {
        let param = tape.param(id);
        let Some(module) = param.name.strip_suffix(".weight") else { continue };
        let name = module.rsplit('.').next().unwrap_or(module);
        let is_head = adapter.base_head && matches!(name, "lm_head" | "embed_out");
        if !is_head && projections.iter().all(|projection| projection.name != name) {
            continue;
        }
        let (layer, weights) = (param.layer, param.elements());
        tape.enter_layer(layer);
        let [codes, scales, tables] = quantised_bytes(weights, adapter.base);
        let old = hold_codes(tape, id, codes);
        tape.enter_layer(None);
        tape.new_buffer("", scales);
        tape.new_buffer("", tables);
        tape.release_storage(old);
        tape.param_mut(id).base = adapter.base;
    }
}

/// Bytes of the codes in place of a weight's; of a weight that ranks share, the rank's part in units of its
/// element type (`quant_storage`), while scales and tables stay whole (`quant_state`). Returns the old ones.
fn hold_codes(tape: &mut Tape, id: ParamId, codes: u64) -> StorageId {
    let Some((shard, ranks)) = tape.param(id).shard.zip(tape.sharded_by()) else {
        let storage = tape.allocate(codes, Prim::Parameter);
        tape.own(storage, id, Category::Weights);
        return core::mem::replace(&mut tape.param_mut(id).storage, storage);
    };
    let elements = codes.div_ceil(shard.dtype.bytes() * ranks);
    let storage = if shard.storage == StorageId::NONE {
        StorageId::NONE
    } else {
        tape.allocate(elements * shard.dtype.bytes(), Prim::Parameter)
    };
    tape.own(storage, id, Category::Weights);
    tape.param_mut(id).shard = Some(Shard { storage, elements, ..shard });
    shard.storage
}

/// The projection of this weight, when its module has a targeted name.
fn target(tape: &Tape, family: &dyn Family, weight: ParamId, adapter: &Adapter) -> Option<Target> {
    let param = tape.param(weight);
    let module = param.name.strip_suffix(".weight")?;
    let name = module.rsplit('.').next()?;
    if adapter.targets.iter().all(|target| target != name) {
        return None;
    }
    // `Conv1D` has its weight the other way round (peft's `fan_in_fan_out`).
    let is_of = |projection: &Projection| {
        let Projection { inputs, outputs, .. } = *projection;
        projection.name == name
            && [[outputs, inputs], [inputs, outputs]].iter().any(|s| s == param.shape.sizes())
    };
    let Projection { inputs, outputs, .. } = family.projections().into_iter().find(is_of)?;
    let shapes = [[adapter.rank, inputs], [outputs, adapter.rank]].map(Shape::new);
    Some(Target { weight, module: module.to_owned(), layer: param.layer, shapes })
}

#[cfg(test)]
mod tests {
    use crate::catalog::Catalog;
    use crate::scenario::check;
    use crate::simulate::simulate;
    use crate::wire::timeline::Category;

    /// Weights at the peak, bytes.
    fn weights(base: &str, ranks: u64) -> u64 {
        let mut document = serde_json::json!({
            "version": 1,
            "model": {"kind": "llama", "config": {
                "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
                "num_key_value_heads": 4, "intermediate_size": 512, "vocab_size": 64
            }},
            "hardware": {"gpu": "h200-sxm", "count": ranks},
            "workload": {"micro_batch": 1, "seq_len": 16},
            "precision": "bf16",
            "adapter": {"rank": 4, "targets": ["q_proj"], "autocast": false, "base": base}
        });
        if 1 < ranks {
            document["parallel"] = serde_json::json!({"data": "fsdp2"});
        }
        let valid = check(&document, &Catalog::builtin()).expect("a valid scenario");
        let categories = simulate(&valid).report.steady.categories;
        let row = categories.iter().find(|row| row.category == Category::Weights);
        row.expect("the model has weights").bytes.get()
    }

    /// A rank has its part of the codes, and the scales and tables of all.
    #[test]
    fn codes_are_shared_and_scales_are_not() {
        let projections = 2 * (4 * 256 * 256 + 3 * 256 * 512);
        let (codes, scales) = (projections / 2, 4 * projections / 64);
        let saved = |ranks| weights("whole", ranks) - weights("nf4", ranks);
        let tables = 2 * 7 * 64;
        assert_eq!(saved(1), 2 * projections - codes - scales - tables);
        // At the peak one of the two layers is gathered.
        let narrower = 2 * projections - codes;
        assert_eq!(saved(4), narrower / 4 + narrower / 2 - scales - tables);
    }
}
