//! Multi-head latent attention: its shape, how it is read, and its counts.

use super::linear;
use crate::scenario::Table;
use crate::scenario::limits;
use crate::wire::{Fault, Faults, Rule};

/// Attention whose keys and values come out of one small latent vector a token (`DeepseekV3Attention`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latent {
    /// `q_lora_rank`: width of the query's latent, when it has one.
    pub query_rank: Option<u64>,
    /// `kv_lora_rank`: width of the latent of key and value.
    pub kv_rank: u64,
    /// `qk_nope_head_dim`: elements of a query or key head without position.
    pub plain_dim: u64,
    /// `qk_rope_head_dim`: elements with rotary position, shared by all key heads.
    pub rotary_dim: u64,
    /// `v_head_dim`: elements of a value head.
    pub value_dim: u64,
    /// `rope_interleave`: rotated pairs are neighbours.
    pub interleaved: bool,
}

impl Latent {
    /// Elements of a query or key head.
    pub const fn head_dim(&self) -> u64 {
        self.plain_dim + self.rotary_dim
    }

    /// The terms of [`Self::parameters`], and the values put in.
    pub(super) fn formula(&self) -> (&'static str, String) {
        let Self { kv_rank, plain_dim, rotary_dim, value_dim, .. } = self;
        let widths = format!("r={kv_rank}, d={plain_dim}, d_r={rotary_dim}, d_v={value_dim}");
        match self.query_rank {
            None => ("h·(n·(d + d_r) + r + d_r + n·d_v) + r·n·(d + d_v)", widths),
            Some(rank) => (
                "h·(r_q + r + d_r + n·d_v) + r_q·n·(d + d_r) + r·n·(d + d_v)",
                format!("r_q={rank}, {widths}"),
            ),
        }
    }

    /// Parameters of one layer's attention, norms of the latents included.
    pub(super) fn parameters(&self, hidden: u128, heads: u128, bias: bool) -> u128 {
        let [kv_rank, plain, rotary, value] =
            [self.kv_rank, self.plain_dim, self.rotary_dim, self.value_dim].map(u128::from);
        let queries = heads * (plain + rotary);
        let query = self.query_rank.map_or_else(
            || linear(hidden, queries, false),
            |rank| {
                let rank = u128::from(rank);
                linear(hidden, rank, bias) + rank + linear(rank, queries, false)
            },
        );
        let compress = linear(hidden, kv_rank + rotary, bias) + kv_rank;
        let expand = linear(kv_rank, heads * (plain + value), false);
        query + compress + expand + linear(heads * value, hidden, bias)
    }
}

/// Source: transformers 5.17, `models/deepseek_v3/configuration_deepseek_v3.py`.
pub(super) fn read(table: &mut Table<'_>, faults: &mut Faults) -> Option<Latent> {
    // Absent means the class's default; null, or 0 as TOML writes it, means none.
    let null = table.raw("q_lora_rank").is_some_and(serde_json::Value::is_null);
    let range = 0..=*limits::WIDTH.end();
    let query_rank = table.integer_or("q_lora_rank", range, if null { 0 } else { 1_536 }, faults);
    let kv_rank = table.integer_or("kv_lora_rank", limits::WIDTH, 512, faults);
    let plain_dim = table.integer_or("qk_nope_head_dim", limits::HEAD_DIM, 128, faults);
    let rotary_dim = table.integer_or("qk_rope_head_dim", limits::HEAD_DIM, 64, faults);
    let value_dim = table.integer_or("v_head_dim", limits::HEAD_DIM, 128, faults);
    let interleaved = table.flag_or("rope_interleave", true, faults);
    if rotary_dim.is_some_and(|dim| dim % 2 != 0) {
        let path = table.path("qk_rope_head_dim");
        let message = "rotary embedding needs an even width";
        let fault = Fault::new(path, Rule::Divisible, message);
        faults.push(fault.arguments([
            rotary_dim.unwrap_or(0).to_string(),
            String::from("multiple of"),
            String::from("2"),
        ]));
    }
    Some(Latent {
        query_rank: query_rank.map(|rank| (0 < rank).then_some(rank))?,
        kv_rank: kv_rank?,
        plain_dim: plain_dim?,
        rotary_dim: rotary_dim?,
        value_dim: value_dim?,
        interleaved: interleaved?,
    })
}
