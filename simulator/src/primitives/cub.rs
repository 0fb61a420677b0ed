//! Scratch of CUB's device-wide algorithms, which PyTorch takes from its allocator.
//!
//! Source: `detail::AliasTemporaries` (`cub/detail/temporary_storage.cuh`) rounds each part up to 256
//! bytes and adds 255 for the alignment of the whole.

fn aliased(parts: &[u64]) -> u64 {
    parts.iter().map(|part| part.next_multiple_of(256)).sum::<u64>() + 255
}

/// `cub::DeviceRadixSort::SortPairs` of 64-bit keys with 64-bit values, bytes: the other half of both
/// double buffers, histograms and counters of 256 bins for eight digits, and a look-back of 256
/// counts for each tile of 4,096 items (`DispatchRadixSort::InvokeOnesweep`).
pub(crate) fn sort_scratch(items: u64) -> u64 {
    let lookback = items.div_ceil(4096) * 256 * 4;
    aliased(&[8 * items, 8 * items, 8 * 256 * 8, 8 * 4, lookback])
}

/// Scan, bytes: 16 for each tile's descriptor and for 32 more, a warp ahead of the first
/// (`ScanTileState`). A tile has 512 to 963 items by the requests recorded with PyTorch 2.11.
pub(crate) fn scan_scratch(items: u64) -> u64 {
    descriptors(items.div_ceil(768))
}

/// `cub::DeviceSelect::UniqueByKey`, bytes: as [`scan_scratch`], with tiles of at least 1,024 items.
pub(crate) fn unique_scratch(items: u64) -> u64 {
    descriptors(items.div_ceil(1024))
}

fn descriptors(tiles: u64) -> u64 {
    aliased(&[(tiles + 32) * 16, 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests in the captures of PyTorch 2.11 on an H200.
    #[test]
    fn as_recorded() {
        for (items, sort, unique, scan) in
            [(4096, 83_455, 1279, 1279), (8192, 150_015, 1279, 1279), (16384, 283_135, 1279, 1535)]
        {
            assert_eq!(
                [sort_scratch(items), unique_scratch(items), scan_scratch(items)],
                [sort, unique, scan]
            );
        }
        for items in [512, 1000, 2048] {
            assert_eq!(scan_scratch(items), 1279);
        }
    }
}
