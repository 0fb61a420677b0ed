//! Scratch of CUB's device-wide algorithms, which PyTorch takes from its allocator.
//!
//! Source: `detail::AliasTemporaries` (`cub/detail/temporary_storage.cuh`) rounds each part up to 256
//! bytes and adds 255 for the alignment of the whole.

fn aliased(parts: &[u64]) -> u64 {
    parts.iter().map(|part| part.next_multiple_of(256)).sum::<u64>() + 255
}

/// Items up to which a sort needs one block and no memory (`DispatchRadixSort::InvokeSingleTile`).
const SINGLE_TILE: u64 = 2304;
/// Items of one tile of a longer sort, by the requests recorded with PyTorch 2.11 (4,097 items have one
/// tile, 300,000 have 66).
const SORT_TILE: u64 = 4608;

/// `cub::DeviceRadixSort::SortPairs` of 64-bit keys with 64-bit values, bytes: as
/// [`sort_scratch_of`] with all 64 bits.
pub(crate) fn sort_scratch(items: u64) -> u64 {
    sort_scratch_of(items, 64)
}

/// The same where only the lowest bits of a key count, bytes: the other half of both double buffers,
/// histograms and counters of 256 bins for each digit of eight bits, and a look-back of 256 counts for
/// each tile (`DispatchRadixSort::InvokeOnesweep`).
pub(crate) fn sort_scratch_of(items: u64, bits: u64) -> u64 {
    if items <= SINGLE_TILE {
        return 1;
    }
    let digits = bits.div_ceil(8);
    let lookback = items.div_ceil(SORT_TILE) * 256 * 4;
    aliased(&[8 * items, 8 * items, 8 * 256 * digits, 4 * digits, lookback])
}

/// Items of one tile of a sort of one-byte keys with 64-bit values, by the requests recorded with
/// PyTorch 2.11 (32,768 items have ten tiles).
const SHORT_KEY_TILE: u64 = 3456;

/// A sort of one-byte keys with 64-bit values, bytes: one digit, so that no second pass needs buffers.
pub(crate) fn one_pass_sort_scratch(items: u64) -> u64 {
    let lookback = items.div_ceil(SHORT_KEY_TILE) * 256 * 4;
    aliased(&[8 * 256, 4, lookback])
}

/// Scan, bytes: 16 for each tile's descriptor and for 32 more, a warp ahead of the first
/// (`ScanTileState`). A tile has 512 to 963 items by the requests recorded with PyTorch 2.11.
pub(crate) fn scan_scratch(items: u64) -> u64 {
    descriptors(items.div_ceil(768))
}

/// Scan of few 32-bit integers, one tile, bytes: descriptors of 8 bytes.
pub(crate) fn short_scan_scratch() -> u64 {
    aliased(&[33 * 8, 1])
}

/// `cub::DeviceSelect::UniqueByKey`, bytes: as [`scan_scratch`]. A tile has 4,096 to 4,607 items by the
/// requests recorded with PyTorch 2.11.
pub(crate) fn unique_scratch(items: u64) -> u64 {
    descriptors(items.div_ceil(4224))
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
        for (items, unique) in [(16_900, 1279), (147_456, 1791), (262_144, 2047)] {
            assert_eq!(unique_scratch(items), unique);
        }
        for items in [512, 1000, 2048] {
            assert_eq!(scan_scratch(items), 1279);
        }
    }

    /// Recorded on an H200 with torch 2.11 around `sort`, `index_put_` and `cumsum`.
    #[test]
    fn short_keys_as_recorded() {
        let check = |items, bits, expect| assert_eq!(sort_scratch_of(items, bits), expect);
        check(2304, 12, 1);
        check(2305, 12, 43_007);
        check(4097, 64, 83_967);
        check(8192, 12, 137_727);
        check(300_000, 17, 4_874_239);
        assert_eq!(short_scan_scratch(), 1023);
    }
}
