//! A GPU's profile: what the driver shows, datasheet rates, and what was measured on it.

use serde::{Deserialize, Serialize};

/// Where a number comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Address or document.
    pub source: String,
    /// Date of the reading, ISO 8601.
    pub as_of: String,
}

/// One GPU model. Units are in the keys; bandwidths and rates are decimal (10⁹, 10¹²).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GpuProfile {
    /// Id used everywhere, such as `h100-sxm`.
    pub id: String,
    /// Name as people write it.
    pub name: String,
    /// Other names it is found by, such as the one the driver shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Maker.
    pub vendor: String,
    /// Generation, such as `Hopper`.
    pub architecture: String,
    /// Compute capability (NVIDIA), such as `9.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
    /// Memory on the label, GB.
    pub memory_gb: f64,
    /// Memory as the driver's tool shows it, MiB.
    pub usable_mib: u64,
    /// Memory bandwidth, GB/s.
    pub memory_bandwidth_gbps: f64,
    /// Second-level cache, MB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_mb: Option<f64>,
    /// Streaming multiprocessors (or compute units).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_count: Option<u64>,
    /// fp32 rate of the vector units, TFLOP/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp32_tflops: Option<f64>,
    /// Dense TF32 rate of the matrix units, TFLOP/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tf32_tflops: Option<f64>,
    /// Dense fp16 rate of the matrix units, TFLOP/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp16_tflops: Option<f64>,
    /// Dense bf16 rate of the matrix units, TFLOP/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bf16_tflops: Option<f64>,
    /// Dense fp8 rate of the matrix units, TFLOP/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp8_tflops: Option<f64>,
    /// Board power, W.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tdp_w: Option<f64>,
    /// Bytes outside the allocator's pool, when they were measured on this model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_pool: Option<OutsidePool>,
    /// Whether a job on this very model was measured and compared.
    #[serde(default)]
    pub measured: bool,
    /// Fields whose value was not verified at the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
    /// Where the numbers come from.
    pub provenance: Provenance,
}

/// Device memory that the caching allocator does not see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OutsidePool {
    /// Kept by the driver before any process starts, bytes.
    pub driver_bytes: u64,
    /// CUDA context of one process, with the framework's kernels loaded lazily, bytes.
    pub context_bytes: u64,
    /// Kernels and library workspaces loaded by a training step, bytes.
    pub libraries_bytes: u64,
    /// Half-width of what was seen between jobs, bytes.
    pub band_bytes: u64,
    /// Where this was measured.
    pub provenance: Provenance,
}
