//! `DistributedDataParallel`: gradients of all parameters in one buffer in fp32, and with the
//! distributed optimizer their weights in another.
//!
//! Source: megatron-core 0.19.2, `distributed/param_and_grad_buffer.py`,
//! `optimizer/distrib_optimizer.py` (`_compute_per_buffer_param_layout`), `optimizer/param_layout.py`.
//! Without `overlap_grad_reduce` a buffer is one bucket, but for an embedding that two stages share.

use crate::tape::{Block, ParamId, Prim, StorageId, Tape};
use crate::wire::timeline::Category;

/// Alignment of a parameter in its buffer, elements (`pad_param_start`).
const PARAMETER_ALIGNMENT: u64 = 64;
/// Alignment of a bucket's end, elements, beside the number of replicas (`bucket_end_divisor`).
const BUCKET_ALIGNMENT: u64 = 128;

/// Where a parameter lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    id: ParamId,
    start: u64,
    end: u64,
}

/// Parameters that are reduced together, last one first.
#[derive(Debug, Default, PartialEq, Eq)]
struct Bucket {
    places: Vec<Place>,
    start: u64,
    end: u64,
}

/// A chunk's parameters of one kind.
#[derive(Debug)]
pub(super) struct Buffer {
    buckets: Vec<Bucket>,
    replicas: u64,
}

impl Buffer {
    /// Lays the parameters out, in reverse order.
    pub(super) fn new(
        tape: &Tape,
        params: &[ParamId],
        shared: Option<ParamId>,
        replicas: u64,
        padded: bool,
    ) -> Self {
        let aligned = |at: u64, to: u64| if padded { at.next_multiple_of(to) } else { at };
        let divisor = lcm(replicas, BUCKET_ALIGNMENT);
        let mut buckets = Vec::new();
        let mut bucket = Bucket::default();
        let finish = |mut bucket: Bucket, at: u64, buckets: &mut Vec<Bucket>| {
            bucket.end = aligned(at, divisor);
            let start = bucket.end;
            buckets.push(bucket);
            Bucket { places: Vec::new(), start, end: start }
        };
        let mut at = 0;
        for &id in params.iter().rev() {
            at = aligned(at, PARAMETER_ALIGNMENT);
            // An embedding that two stages share is reduced by itself.
            let own = padded && shared == Some(id);
            if own && !bucket.places.is_empty() {
                bucket = finish(bucket, at, &mut buckets);
                at = bucket.start;
            }
            let end = at + tape.param(id).shape.elements();
            bucket.places.push(Place { id, start: at, end });
            at = end;
            if own {
                bucket = finish(bucket, at, &mut buckets);
                at = bucket.start;
            }
        }
        if !bucket.places.is_empty() {
            finish(bucket, at, &mut buckets);
        }
        Self { buckets, replicas }
    }

    /// Allocates it: weights, which then move in, and gradients.
    pub(super) fn allocate(&self, tape: &mut Tape, with_weights: bool) -> Vec<StorageId> {
        let elements = self.buckets.last().map_or(0, |bucket| bucket.end);
        tape.enter(Block::Buffers, "param_and_grad_buffer");
        let weights = with_weights.then(|| {
            let weights = tape.allocate(2 * elements, Prim::Parameter);
            tape.categorise(weights, Category::Weights);
            weights
        });
        let gradients = tape.allocate(4 * elements, Prim::Parameter);
        tape.categorise(gradients, Category::Gradients);
        for place in self.buckets.iter().flat_map(|bucket| &bucket.places) {
            if let Some(weights) = weights {
                tape.move_parameter(place.id, weights);
            }
            tape.param_mut(place.id).main_grad = true;
        }
        weights.into_iter().chain([gradients]).collect()
    }

    /// Parameters in order of their places, with the elements that the first replica owns.
    pub(super) fn shards(&self) -> impl Iterator<Item = (ParamId, u64)> + use<'_> {
        self.buckets.iter().flat_map(|bucket| {
            let last = bucket.start + (bucket.end - bucket.start) / self.replicas;
            bucket.places.iter().filter_map(move |place| {
                let elements = place.end.min(last).saturating_sub(place.start);
                (0 < elements).then_some((place.id, elements))
            })
        })
    }
}

const fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}
