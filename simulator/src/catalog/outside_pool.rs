//! Device memory outside the allocator's pool, for GPUs that were measured and for the others.

use super::Catalog;
use crate::units::Bytes;
use crate::wire::GpuProfile;

/// Bytes outside the pool for one training process, and how sure that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideEstimate {
    /// Kept by the driver before any process starts.
    pub driver: Bytes,
    /// CUDA context of one process, with the framework's kernels loaded lazily.
    pub context: Bytes,
    /// Kernels and library workspaces loaded by a training step.
    pub libraries: Bytes,
    /// Half-width of the band around the sum.
    pub band: Bytes,
    /// Whether it was measured on this very GPU model.
    pub measured: bool,
    /// Where the numbers come from, for people.
    pub source: String,
}

impl OutsideEstimate {
    /// All bytes outside the pool.
    pub fn total(&self) -> Bytes {
        self.driver + self.context + self.libraries
    }
}

impl Catalog {
    /// Bytes outside the allocator's pool on this GPU.
    ///
    /// A measured GPU answers with its own figures. For any other, the figures of the catalog's
    /// first measured GPU are taken over with a wider band, and `measured` is false:
    ///
    /// - same vendor: half of the sum. The parts vary that much among NVIDIA cards: PyTorch sees
    ///   300 to 920 MiB less than the driver's tool (24 GB consumer cards to A100 80GB), contexts
    ///   of 107 to 616 MiB were reported (RTX 4060 Ti to data-centre cards, growing with the SM
    ///   count), and lazily loaded kernels add 200 to 700 MiB. The sum on the H200 is 1382 MiB.
    /// - another vendor: the whole sum, because context and kernels are other software there.
    ///
    /// # Source
    ///
    /// The measured GPU's `outside_pool.provenance`; for the band: out-of-memory messages and
    /// reports collected in 2026 (`InvokeAI` #9413, unsloth-zoo PR 1053, llama.cpp PR 23604,
    /// `LMCache` #4019, PyTorch #107667).
    ///
    /// # Assumptions
    ///
    /// One process on the card, no NCCL communicator. A catalog without any measured GPU knows
    /// nothing: zero bytes, zero band, not measured.
    pub fn outside_pool(&self, gpu: &GpuProfile) -> OutsideEstimate {
        let own = gpu.outside_pool.as_ref();
        let reference = own.map(|pool| (pool, gpu)).or_else(|| {
            self.gpus.iter().find_map(|other| Some((other.outside_pool.as_ref()?, other)))
        });
        let Some((pool, from)) = reference else {
            return OutsideEstimate {
                driver: Bytes::ZERO,
                context: Bytes::ZERO,
                libraries: Bytes::ZERO,
                band: Bytes::ZERO,
                measured: false,
                source: String::from("never measured"),
            };
        };
        let sum = pool.driver_bytes + pool.context_bytes + pool.libraries_bytes;
        let measured = own.is_some();
        OutsideEstimate {
            driver: Bytes::new(pool.driver_bytes),
            context: Bytes::new(pool.context_bytes),
            libraries: Bytes::new(pool.libraries_bytes),
            band: Bytes::new(if measured {
                pool.band_bytes
            } else if from.vendor == gpu.vendor {
                pool.band_bytes.max(sum / 2)
            } else {
                pool.band_bytes.max(sum)
            }),
            measured,
            source: if measured {
                pool.provenance.source.clone()
            } else {
                format!("never measured on {}; taken from {}", gpu.name, from.name)
            },
        }
    }
}
