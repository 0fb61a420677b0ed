//! An allocator capture: what a real caching allocator did from its first request, with segments
//! and addresses (`allocator/ID.json.gz` of the ground truth, here already decompressed).
//!
//! Described in docs/formats.md. Fields that are not needed for a replay are skipped.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One capture.
#[derive(Debug, Clone, Deserialize)]
pub struct AllocatorCapture {
    /// The case's name.
    pub id: String,
    /// Library versions, such as `torch 2.11.0+cu130`.
    pub stack: String,
    /// The device's name.
    pub gpu: String,
    /// What ran.
    pub case: CapturedCase,
    /// How the allocator was set.
    #[serde(default)]
    pub allocator_settings: CapturedSettings,
    /// Everything that it did, in order.
    pub events: Vec<CapturedEvent>,
    /// The segments at the end, by address.
    #[serde(default)]
    pub final_segments: Vec<CapturedSegment>,
    /// The allocator's own counters at the end, such as `reserved_bytes.all.peak`.
    #[serde(default)]
    pub stats: BTreeMap<String, Option<u64>>,
}

/// What of the case bears on the allocator.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct CapturedCase {
    /// Bytes that the process let itself reserve; 0 without a limit.
    #[serde(default)]
    pub cap_bytes: u64,
}

/// What of the settings is not at its default.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct CapturedSettings {
    /// The settings string, as the program had it.
    #[serde(default, rename = "PYTORCH_CUDA_ALLOC_CONF")]
    pub conf: Option<String>,
}

/// What the allocator did; the names are those of PyTorch's memory trace (`TraceEntry::Action`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapturedAction {
    /// A block was handed out.
    Alloc,
    /// A block was freed by its owner.
    FreeRequested,
    /// A freed block can be used again.
    FreeCompleted,
    /// The driver gave a segment.
    SegmentAlloc,
    /// A segment went back to the driver.
    SegmentFree,
    /// Part of an expandable segment was mapped.
    SegmentMap,
    /// Part of an expandable segment was unmapped.
    SegmentUnmap,
    /// A request failed.
    Oom,
    /// The program took a snapshot.
    Snapshot,
}

/// One event: `[action, bytes, address, stream]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "(CapturedAction, u64, u64, u32)")]
pub struct CapturedEvent {
    /// What happened.
    pub action: CapturedAction,
    /// Requested bytes of a block (rounded for an `oom`), or bytes of a segment.
    pub bytes: u64,
    /// First byte, from the lowest address of the capture.
    pub address: u64,
    /// The stream, numbered from 0 in the order of the framework's handles.
    pub stream: u32,
}

impl From<(CapturedAction, u64, u64, u32)> for CapturedEvent {
    fn from((action, bytes, address, stream): (CapturedAction, u64, u64, u32)) -> Self {
        Self { action, bytes, address, stream }
    }
}

/// One segment of the end: `[address, bytes, pool, stream, expandable]`; the stream is −1 where
/// the capture does not know it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "(u64, u64, String, i64, bool)")]
pub struct CapturedSegment {
    /// First byte, from the lowest address of the capture.
    pub address: u64,
    /// Bytes of it.
    pub bytes: u64,
    /// Whether it belongs to a small pool.
    pub is_small: bool,
    /// Whether it is a mapped run of an expandable segment.
    pub is_expandable: bool,
}

impl From<(u64, u64, String, i64, bool)> for CapturedSegment {
    fn from(row: (u64, u64, String, i64, bool)) -> Self {
        let (address, bytes, pool, _, is_expandable) = row;
        Self { address, bytes, is_small: pool == "small", is_expandable }
    }
}

impl AllocatorCapture {
    /// Reads a capture.
    ///
    /// # Errors
    ///
    /// When the text is not JSON or not of this shape; the message names line and column.
    pub fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// A counter of the end, if it was captured.
    pub fn stat(&self, name: &str) -> Option<u64> {
        self.stats.get(name).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_by_hand() {
        let json = br#"{"id": "x", "stack": "torch 2.11.0", "gpu": "H200", "case": {"id": "x"},
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1},
            "pressure": {"num_ooms": 0}, "columns": [],
            "events": [["segment_alloc", 2097152, 0, 0], ["alloc", 344, 0, 0]],
            "final_segments": [[0, 2097152, "small", -1, false]],
            "stats": {"num_ooms": 0, "absent": null}}"#;
        let capture = AllocatorCapture::from_json(json).unwrap();
        let last =
            CapturedEvent { action: CapturedAction::Alloc, bytes: 344, address: 0, stream: 0 };
        assert_eq!(capture.events[1], last);
        assert_eq!((capture.stat("num_ooms"), capture.stat("absent")), (Some(0), None));
        assert!(capture.final_segments[0].is_small);
        assert_eq!(capture.case.cap_bytes, 0);
    }
}
