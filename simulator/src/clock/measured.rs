//! Measured device times: the nominal clock corrected by what was measured near the asked shape.
//!
//! Every measured call is an *anchor*: its place (logarithms of its sizes), and the ratio of its
//! measured to its nominal time. A work's time is its nominal time × the mean ratio of its group's
//! anchors, weighted by 1/d⁴ with the distance d in octaves. At an anchor this is the measured time
//! itself; between anchors the nominal clock carries the shape's quantisation and the ratio varies
//! slowly; far from all anchors it tends to the group's mean. Groups without anchors borrow those of
//! a sibling (another 16-bit format, another kernel of the same pattern) or stay nominal.

use super::rates::RatePair;
use super::tables::{Sample, Tables};
use super::work::{AttentionKernel, Number, Pass, Pointwise, Reduce, Work, WorkClass};
use super::{Tf32, nominal_seconds};
use crate::order;
use crate::wire::GpuProfile;

/// The measured files by GPU id.
const FILES: [(&str, &str); 1] = [("h200-sxm", include_str!("../../data/measured/h200-sxm.json"))];

/// Squared distance, octaves², that a different layout, causality or 16-bit format counts for.
/// Chosen by leave-one-out error over the H200's products (1 and 4 tried).
const TAG_DISTANCE: f64 = 1.0;

/// [`Group::class`] of matrix products.
const MATMUL: u8 = 0;
/// [`Group::class`] of convolutions.
const CONVOLUTION: u8 = 2;

/// Where a work stands among its like.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    /// Works that can be compared at all.
    group: Group,
    /// Differences that count as a distance.
    tags: [u8; 2],
    /// log₂ of the sizes.
    at: [f64; 3],
}

/// Class, kind within the class, number format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    class: u8,
    kind: u8,
    number: Number,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Anchor {
    place: Place,
    ratio: f64,
}

/// All anchors of a GPU, sorted by group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    anchors: Vec<Anchor>,
}

impl Measured {
    /// The anchors of a GPU, if it was measured. That was with TF32 products allowed: where they are not,
    /// fp32 products keep their nominal times.
    pub(super) fn of(gpu: &GpuProfile, tf32: Tf32) -> Option<Self> {
        let tables = tables(&gpu.id)?;
        let mut measured = Self::from_samples(&tables.samples(), &RatePair::new(gpu, Tf32::ALL));
        let is_told = |anchor: &Anchor| match (anchor.place.group.class, anchor.place.group.number)
        {
            (MATMUL, Number::F32) => tf32.matmul,
            (CONVOLUTION, Number::F32) => tf32.convolution,
            _ => true,
        };
        measured.anchors.retain(is_told);
        Some(measured)
    }

    /// Anchors from samples; a call of several works gives each of them the call's ratio.
    pub(super) fn from_samples(samples: &[Sample], rates: &RatePair) -> Self {
        let mut anchors = Vec::with_capacity(samples.len());
        for sample in samples {
            let nominal: f64 = sample.works.iter().map(|work| nominal_seconds(rates, work)).sum();
            let ratio = sample.seconds / nominal;
            let places = sample.works.iter().filter_map(place);
            anchors.extend(places.map(|place| Anchor { place, ratio }));
        }
        order::sort_by(&mut anchors, |a, b| a.place.group.cmp(&b.place.group));
        Self { anchors }
    }

    /// Measured over nominal time for a work; 1 where nothing like it was measured.
    pub(super) fn ratio(&self, work: &Work) -> f64 {
        let Some(place) = place(work) else { return 1.0 };
        if let Some(ratio) = self.near(&place) {
            return ratio;
        }
        siblings(place.group)
            .into_iter()
            .flatten()
            .find_map(|group| self.near(&Place { group, ..place }))
            .unwrap_or(1.0)
    }

    fn near(&self, place: &Place) -> Option<f64> {
        let first = self.anchors.partition_point(|anchor| anchor.place.group < place.group);
        let (mut weights, mut sum) = (0.0, 0.0);
        let group =
            self.anchors[first..].iter().take_while(|anchor| anchor.place.group == place.group);
        for anchor in group {
            let square = distance_square(&anchor.place, place);
            // The small term makes an exact hit outweigh all others by 10¹⁸.
            let weight = 1.0 / (square * square + 1e-18);
            weights += weight;
            sum += weight * anchor.ratio;
        }
        (weights > 0.0).then(|| sum / weights)
    }
}

/// The file of a GPU.
pub(super) fn tables(id: &str) -> Option<Tables<'static>> {
    let (_, text) = FILES.iter().find(|(gpu, _)| *gpu == id)?;
    serde_json::from_slice(text.as_bytes()).ok()
}

fn distance_square(a: &Place, b: &Place) -> f64 {
    let mut square = 0.0;
    for (a, b) in a.at.iter().zip(b.at) {
        square += (a - b) * (a - b);
    }
    for (a, b) in a.tags.iter().zip(b.tags) {
        square += if *a == b { 0.0 } else { TAG_DISTANCE };
    }
    square
}

/// Where a work stands; `None` for classes that are never measured.
fn place(work: &Work) -> Option<Place> {
    let of = |class, kind, tags, at| {
        let number = work.number;
        Some(Place { group: Group { class, kind, number }, tags, at })
    };
    match work.class {
        WorkClass::Matmul { m, n, k, pass, .. } => {
            let at = [log2(m), log2(n), log2(k)];
            let exact = work.number as u8;
            let number = if is_16_bit(work.number) { Number::Bf16 } else { work.number };
            let group = Group { class: MATMUL, kind: 0, number };
            Some(Place { group, tags: [pass as u8, exact], at })
        }
        WorkClass::Attention {
            batch, heads, q_len, head_dim, causal, backward, kernel, ..
        } => {
            let blocks = log2(batch) + log2(u32::from(heads));
            let at = [log2(q_len), log2(u32::from(head_dim)), blocks];
            of(1, kernel as u8 * 2 + u8::from(backward), [u8::from(causal), 0], at)
        }
        WorkClass::Convolution { channels_last, groups, pass, .. } => {
            let gemm = super::gemm::implicit_gemm(work.class)?;
            let kind = u8::from(channels_last) * 4
                + u8::from(groups > 1) * 2
                + u8::from(pass != Pass::Forward);
            of(CONVOLUTION, kind, [pass as u8, 0], [log2(gemm.m), log2(gemm.n), log2(gemm.k)])
        }
        WorkClass::Elementwise(kind) => of(3, kind as u8, [0; 2], [log2_u64(work.bytes), 0.0, 0.0]),
        WorkClass::Reduction { kind, rows, cols } => {
            of(4, kind as u8, [0; 2], [log2(rows), log2(cols), 0.0])
        }
        WorkClass::Optimizer { kind, .. } => of(5, kind as u8, [0; 2], [0.0; 3]),
        WorkClass::Transfer(link) => of(6, link as u8, [0; 2], [log2_u64(work.bytes), 0.0, 0.0]),
        WorkClass::Index(_) | WorkClass::Host(_) | WorkClass::Synchronize => None,
    }
}

/// Groups to borrow from, best first: the other 16-bit format, then a kernel of the same pattern,
/// then fp32.
fn siblings(group: Group) -> [Option<Group>; 4] {
    let number = match group.number {
        Number::F16 => Number::Bf16,
        Number::Bf16 => Number::F16,
        other => other,
    };
    let kind = match group.class {
        1 => attention_sibling(group.kind),
        3 => pointwise_sibling(group.kind),
        4 => reduce_sibling(group.kind),
        _ => group.kind,
    };
    let wide = Number::F32;
    [
        Some(Group { number, ..group }),
        Some(Group { kind, ..group }),
        Some(Group { kind, number, ..group }),
        (group.class > 1).then_some(Group { kind, number: wide, ..group }),
    ]
}

/// cuDNN's backward was not measured: its forward's ratio stands for it.
const fn attention_sibling(kind: u8) -> u8 {
    if kind == AttentionKernel::Cudnn as u8 * 2 + 1 { kind - 1 } else { kind }
}

const fn pointwise_sibling(kind: u8) -> u8 {
    if kind == Pointwise::Strided as u8 { Pointwise::Copy as u8 } else { kind }
}

const fn reduce_sibling(kind: u8) -> u8 {
    const FIRST: u8 = Reduce::First as u8;
    const ALL: u8 = Reduce::All as u8;
    const RMS: u8 = Reduce::RmsNormBackward as u8;
    const SOFTMAX: u8 = Reduce::SoftmaxBackward as u8;
    const BATCH: u8 = Reduce::BatchNormBackward as u8;
    match kind {
        FIRST | ALL => Reduce::Last as u8,
        RMS => Reduce::LayerNormBackward as u8,
        SOFTMAX => Reduce::LogSoftmaxBackward as u8,
        BATCH => Reduce::BatchNorm as u8,
        other => other,
    }
}

const fn is_16_bit(number: Number) -> bool {
    matches!(number, Number::F16 | Number::Bf16)
}

fn log2(size: u32) -> f64 {
    libm::log2(f64::from(size.max(1)))
}

fn log2_u64(size: u64) -> f64 {
    libm::log2(super::gemm::as_f64(size.max(1)))
}
