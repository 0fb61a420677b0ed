//! `SelfAttention` with `DotProductAttention`.
//!
//! Source: megatron-core 0.19.2, `transformer/attention.py`, `transformer/dot_product_attention.py`,
//! `fusions/fused_softmax.py`, `models/common/embeddings/rope_utils.py`.

use crate::scenario::MegatronGpt;
use crate::tape::{Block, ParamId, Part, Prim, StorageId, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};
use crate::wire::scenario::Checkpointing;

use super::chunk::Context;
use super::deepspeed::before_scores;
use super::layer::{Linear, Norm, row_parallel, runner};
use super::rank::Rank;

/// Its parameters.
#[derive(Debug)]
pub(super) struct Attention {
    proj: Linear,
    /// Transformer Engine's norm before the first product.
    norm: Option<Norm>,
    qkv: Linear,
}

/// Heads of one rank.
#[derive(Clone, Copy, Debug)]
struct Heads {
    tokens: u64,
    batch: u64,
    queries: u64,
    groups: u64,
    dim: u64,
}

impl Heads {
    fn of(context: &Context<'_>) -> Self {
        let &Context { config, rank, .. } = context;
        Self {
            tokens: rank.tokens,
            batch: rank.batch,
            queries: config.heads / rank.tensor,
            groups: config.groups / rank.tensor,
            dim: config.head_dim,
        }
    }

    /// Query heads of each group.
    const fn repeat(&self) -> u64 {
        self.queries / self.groups
    }

    fn query(&self) -> Shape {
        Shape::new([self.tokens, self.batch, self.queries, self.dim])
    }

    fn key(&self) -> Shape {
        Shape::new([self.tokens, self.batch, self.groups, self.dim])
    }

    /// Memory order of `[heads, tokens, dim]` seen as `[tokens, heads, dim]`.
    const fn by_head(&self) -> Layout {
        if self.batch * self.queries == 1 || self.tokens == 1 {
            Layout::Contiguous
        } else {
            Layout::Transposed
        }
    }
}

impl Attention {
    pub(super) fn register(tape: &mut Tape, config: &MegatronGpt, rank: &Rank, path: &str) -> Self {
        let hidden = config.hidden;
        let query = config.query_width() / rank.tensor;
        let proj =
            Linear::register(tape, &format!("{path}.linear_proj"), [hidden, query], config.bias);
        let norm = config
            .engine
            .is_some()
            .then(|| Norm::register(tape, config, &format!("{path}.linear_qkv")));
        let qkv = [config.qkv_width() / rank.tensor, hidden];
        let qkv = Linear::register(tape, &format!("{path}.linear_qkv"), qkv, config.qkv_bias);
        Self { proj, norm, qkv }
    }

    /// The bias that is added after the layer's attention.
    pub(super) const fn output_bias(&self) -> Option<ParamId> {
        self.proj.bias
    }

    pub(super) fn forward(
        &self,
        tape: &mut Tape,
        context: &Context<'_>,
        x: &Tensor,
        number: u32,
    ) -> Tensor {
        let heads = Heads::of(context);
        let [query, key, value] = self.query_key_value(tape, context, heads, x);
        // The tuple of the three is held to the end.
        let [rotated_query, rotated_key] = match context.frequencies {
            Some(frequencies) => {
                tape.enter(Block::Rotary, "apply_rotary_pos_emb");
                let fused = context.config.engine.is_some_and(|engine| engine.fused_rope);
                [&query, &key].map(|part| {
                    if fused {
                        tape.fused_rotation(part, frequencies)
                    } else {
                        rotate(tape, part, frequencies)
                    }
                })
            }
            None => [tape.share(&query), tape.share(&key)],
        };
        let inputs = [&rotated_query, &rotated_key, &value];
        let attended = if context.rank.checkpointing == Checkpointing::Selective {
            let chunk = u32::try_from(context.chunk).unwrap_or(u32::MAX);
            let part = Part::CoreAttention { chunk, layer: number };
            let kept = [inputs[0], inputs[1], inputs[2], context.mask];
            tape.checkpoint(part, &kept, &inputs, |tape| core_attention(tape, context, inputs))
        } else {
            core_attention(tape, context, inputs)
        };
        tape.enter(Block::Attention, "linear_proj");
        let output = row_parallel(tape, context, &attended, self.proj.weight);
        for tensor in [query, key, value, rotated_query, rotated_key, attended] {
            tape.release(tensor);
        }
        output
    }

    /// `get_query_key_value_tensors`: parts of one product; a group's queries are copied together
    /// where it has several.
    fn query_key_value(
        &self,
        tape: &mut Tape,
        context: &Context<'_>,
        heads: Heads,
        x: &Tensor,
    ) -> [Tensor; 3] {
        tape.enter(Block::Attention, "linear_qkv");
        let (gathered, runner) = (context.rank.gathered(), runner(context.config));
        let mixed = match &self.norm {
            Some(norm) => tape.norm_linear(x, norm.both(), self.qkv.both(), (gathered, runner)),
            None => tape.parallel_linear(x, self.qkv.weight, self.qkv.bias, (gathered, runner)),
        };
        let Heads { tokens, batch, groups, dim, .. } = heads;
        let of_query = heads.repeat() * dim;
        let grouped = Shape::new([tokens, batch, groups, of_query + 2 * dim]);
        let seen = tape.seen(&mixed, grouped, Layout::Contiguous, Layout::Contiguous);
        tape.release(mixed);
        let [grouped_query, key, value] = tape.split(&seen, [of_query, dim, dim]);
        tape.release(seen);
        let query = if 1 < heads.repeat() {
            tape.copied(&grouped_query, heads.query())
        } else {
            let order = grouped_query.layout;
            tape.seen(&grouped_query, heads.query(), order, heads.by_head())
        };
        tape.release(grouped_query);
        [query, key, value]
    }
}

/// `_apply_rotary_pos_emb_bshd`: `t * cos + rotate_half(t) * sin`, beside an empty rest.
fn rotate(tape: &mut Tape, x: &Tensor, frequencies: &Tensor) -> Tensor {
    let rotated = tape.seen(x, x.shape, x.layout, Layout::Contiguous);
    let rest = tape.slice_last(x, x.shape.last() - frequencies.shape.last());
    let mut table = || {
        let raw = tape.trigonometry(frequencies);
        let scaled = tape.mul_scalar(&raw);
        tape.release(raw);
        let table = tape.cast(&scaled, x.dtype);
        tape.release(scaled);
        table
    };
    let [cos, sin] = [table(), table()];
    let straight = tape.mul(&rotated, &cos);
    let [first, second] = tape.split(&rotated, [rotated.shape.last() / 2; 2]);
    let negated = tape.neg(&second);
    let half = tape.cat_last(&negated, &first);
    for tensor in [negated, first, second] {
        tape.release(tensor);
    }
    let crossed = tape.mul(&half, &sin);
    tape.release(half);
    let sum = tape.add(&straight, &crossed);
    tape.release(straight);
    tape.release(crossed);
    let out = tape.cat_last(&sum, &rest);
    for tensor in [sum, rest, rotated, cos, sin] {
        tape.release(tensor);
    }
    Tensor { layout: Layout::Contiguous, ..out }
}

/// `DotProductAttention.forward`: scores into a new tensor over the global buffer, softmax in fp32.
pub(super) fn core_attention(
    tape: &mut Tape,
    context: &Context<'_>,
    [query, key, value]: [&Tensor; 3],
) -> Tensor {
    tape.enter(Block::Attention, "core_attention");
    if let Some(engine) = context.config.engine {
        let inputs = [query, key, value];
        return engine_attention(tape, context, engine.unfused, inputs);
    }
    written_out(tape, context, [query, key, value])
}

/// Scores into a new tensor over another one, softmax, dropout, products.
fn written_out(
    tape: &mut Tape,
    context: &Context<'_>,
    [query, key, value]: [&Tensor; 3],
) -> Tensor {
    let heads = Heads::of(context);
    let Heads { tokens, batch, dim, .. } = heads;
    let rows = batch * heads.queries;
    let [key, value] = if 1 < heads.repeat() {
        [key, value].map(|part| tape.repeat_groups(part, heads.repeat()))
    } else {
        [key, value].map(|part| tape.share(part))
    };
    let order = heads.by_head();
    let flat = Shape::new([tokens, rows, dim]);
    let by_head = Shape::new([rows, tokens, dim]);
    let [flat_query, flat_key] =
        [query, &key].map(|part| tape.seen(part, flat, Layout::Strided, order));
    let bytes = rows * tokens * tokens * query.dtype.bytes();
    let raw = if context.rank.deepspeed {
        before_scores(tape, context.config, bytes)
    } else if context.config.engine.is_some() {
        tape.allocate(bytes, Prim::Bmm)
    } else {
        tape.global_buffer(bytes);
        StorageId::NONE
    };
    let [query_heads, key_heads] =
        [&flat_query, &flat_key].map(|part| tape.seen(part, by_head, Layout::Strided, order));
    let scores = tape.scaled_scores(&query_heads, &key_heads);
    tape.release_storage(raw);
    for tensor in [query_heads, key_heads] {
        tape.release(tensor);
    }
    let dropped = probabilities(tape, context, heads, &scores);
    let flat_value = tape.seen(&value, flat, Layout::Strided, order);
    let square = Shape::new([rows, tokens, tokens]);
    let weights = tape.seen(&dropped, square, Layout::Contiguous, Layout::Contiguous);
    let value_heads = tape.seen(&flat_value, by_head, Layout::Strided, order);
    let by_row = tape.weighted_values(&weights, &value_heads);
    tape.release(value_heads);
    let out = Shape::new([tokens, batch, heads.queries * dim]);
    let attended = if order == Layout::Contiguous {
        tape.seen(&by_row, out, Layout::Contiguous, Layout::Contiguous)
    } else {
        tape.made_contiguous(&by_row, out, order)
    };
    for tensor in [by_row, flat_query, key, flat_key, value, flat_value, scores, weights, dropped] {
        tape.release(tensor);
    }
    attended
}

/// `TEDotProductAttention`: three parts of one product are a layout that the kernels know (`sbh3d`); a part
/// beside tensors of their own is none, and is copied.
///
/// Source: `get_qkv_layout`, Transformer Engine 2.11
/// (`pytorch/attention/dot_product_attention/utils.py`).
///
/// `UnfusedDotProductAttention` is written as Megatron's own, with mask and softmax in one kernel.
fn engine_attention(
    tape: &mut Tape,
    context: &Context<'_>,
    unfused: bool,
    inputs: [&Tensor; 3],
) -> Tensor {
    let known = inputs.iter().all(|part| part.storage == inputs[0].storage);
    let parts = inputs.map(|part| match part.layout {
        Layout::Contiguous => tape.share(part),
        _ if known => tape.share(part),
        _ => tape.made_contiguous(part, part.shape, Layout::Contiguous),
    });
    let attended = if unfused {
        written_out(tape, context, parts.each_ref())
    } else {
        tape.engine_attention(parts.each_ref(), context.rank.context)
    };
    for part in parts {
        tape.release(part);
    }
    attended
}

/// `FusedScaleMaskSoftmax.forward_torch_softmax` and dropout.
fn probabilities(tape: &mut Tape, context: &Context<'_>, heads: Heads, scores: &Tensor) -> Tensor {
    let Heads { tokens, batch, .. } = heads;
    let shape = Shape::new([batch, heads.queries, tokens, tokens]);
    let seen = tape.seen(scores, shape, Layout::Contiguous, Layout::Contiguous);
    if context.config.fused_softmax || context.config.engine.is_some() {
        let softmax = tape.masked_softmax(&seen);
        tape.release(seen);
        let dropped = tape.dropout(&softmax, context.config.attention_dropout);
        tape.release(softmax);
        return dropped;
    }
    let wide = tape.cast(&seen, DType::F32);
    tape.release(seen);
    let masked = tape.masked_fill_in_place(wide, context.mask);
    let softmax = tape.softmax(&masked, DType::F32);
    let narrow = tape.cast(&softmax, scores.dtype);
    tape.release(softmax);
    tape.release(masked);
    let dropped = tape.dropout(&narrow, context.config.attention_dropout);
    tape.release(narrow);
    dropped
}

/// What a checkpoint over the core kept, as leaves.
pub(super) fn leaves(
    tape: &mut Tape,
    context: &Context<'_>,
    kept: &[crate::tape::StorageId],
) -> [Tensor; 3] {
    let heads = Heads::of(context);
    let shapes = [heads.query(), heads.key(), heads.key()];
    core::array::from_fn(|i| {
        let input = tape.handle(kept[i], shapes[i], DType::BF16);
        tape.detached(input)
    })
}
