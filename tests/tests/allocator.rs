//! The caching allocator against what a real one did: every capture of
//! `ground-truth/allocator` is replayed with the captured driver's answers, and once more deciding
//! by itself.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use simulator::allocator::replay::{Replay, replay};
use simulator::wire::AllocatorCapture;

/// Highest error of the reserved peak that a replay decides by itself, in units of 10⁻⁵ of it.
const WORST_ERROR: u64 = 1000;
/// The same for half of the captures.
const MEDIAN_ERROR: u64 = 100;

fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ground-truth/allocator");
    let entries = fs::read_dir(folder).expect("the folder is part of the repository");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    paths.sort();
    paths
}

fn read(path: &Path) -> AllocatorCapture {
    let mut json = Vec::new();
    let file = fs::File::open(path).expect("a readable file");
    GzDecoder::new(file).read_to_end(&mut json).expect("gzip");
    AllocatorCapture::from_json(&json).expect("an allocator capture")
}

/// Replays a capture, holds the replay to all that was captured, and returns the error of the
/// reserved peak that it decides by itself, in units of 10⁻⁵.
fn check(capture: &AllocatorCapture) -> u64 {
    let id = &capture.id;
    let Replay {
        requests,
        in_place,
        segments_equal,
        first_mismatch,
        measured_reserved_peak,
        recorded,
        decided,
    } = replay(capture).expect("known settings");
    assert_eq!(first_mismatch, None, "{id}");
    assert_eq!(in_place, requests, "{id}: blocks at their captured address");
    assert!(segments_equal, "{id}: segment events");
    for (name, counted) in [
        ("allocated_bytes.all.peak", recorded.peak_allocated),
        ("active_bytes.all.peak", recorded.peak_active),
        ("requested_bytes.all.peak", recorded.peak_requested),
        ("reserved_bytes.all.peak", recorded.peak_reserved),
        ("allocated_bytes.all.current", recorded.allocated),
        ("active_bytes.all.current", recorded.active),
        ("reserved_bytes.all.current", recorded.reserved),
        ("segment.all.current", recorded.segments),
        ("num_alloc_retries", recorded.retries),
        ("num_ooms", recorded.ooms),
        // The process asked for one segment before the capture began, and gave it back.
        ("num_device_alloc", recorded.driver_allocs + 1),
        ("num_device_free", recorded.driver_frees + 1),
    ] {
        assert_eq!(capture.stat(name), Some(counted), "{id}: {name}");
    }
    assert_eq!(recorded.peak_reserved, measured_reserved_peak, "{id}");
    decided.peak_reserved.abs_diff(measured_reserved_peak) * 100_000 / measured_reserved_peak
}

#[test]
fn every_capture_is_reproduced() {
    let paths = captures();
    assert_eq!(paths.len(), 20, "captures in the folder");
    let mut errors: Vec<_> = paths.iter().map(|path| check(&read(path))).collect();
    errors.sort_unstable();
    let worst = errors[errors.len() - 1];
    assert!(errors[errors.len() / 2] <= MEDIAN_ERROR && worst <= WORST_ERROR, "{errors:?}");
}
