//! The settings of the caching allocator, read from a `PYTORCH_CUDA_ALLOC_CONF` string, and the
//! size rules that follow from them.
//!
//! Terms: a *request* is what the framework asks for; a *block* is what it gets (rounded up); a
//! *segment* is what the driver hands out. All sizes are bytes.
//!
//! Source: PyTorch 2.11, `c10/core/AllocatorConfig.{h,cpp}` (`ConfigTokenizer`,
//! `AcceleratorAllocatorConfig::parse*`), `c10/cuda/CUDAAllocatorConfig.cpp` (`parseArgs`) and
//! `c10/cuda/CUDACachingAllocator.cpp` (`round_size`, `get_allocation_size`, `should_split`).

use std::fmt;

/// One mebibyte, in bytes.
pub(super) const MIB: u64 = 1 << 20;
/// Every block is a multiple of this (`kMinBlockSize`), in bytes.
pub(super) const MIN_BLOCK: u64 = 512;
/// Largest block that the small pool serves (`kSmallSize`), in bytes.
pub(super) const SMALL_BLOCK: u64 = MIB;
/// Segment of the small pool (`kSmallBuffer`), in bytes.
const SMALL_SEGMENT: u64 = 2 * MIB;
/// Requests of this size and more get a segment of their own size (`kMinLargeAlloc`), in bytes.
const OWN_SEGMENT: u64 = 10 * MIB;
/// Such segments are multiples of this (`kRoundLarge`), in bytes.
const SEGMENT_STEP: u64 = 2 * MIB;
/// Default segment for requests between 1 and 10 MiB (`kLargeBuffer`), in bytes.
const LARGE_SEGMENT: u64 = 20 * MIB;
/// `roundup_power2_divisions` has one entry per power of two from 1 MiB to 32 GiB
/// (`kRoundUpPowerOfTwoIntervals`); the first also serves everything below, the last all above.
const INTERVALS: usize = 16;

/// How segments get their memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segments {
    /// One driver allocation each; they never grow.
    Fixed,
    /// Reserved address ranges, one per pool, mapped page group by page group
    /// (`expandable_segments:True`).
    Expandable,
}

/// How much memory the process lets itself reserve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ProcessLimit {
    /// Whatever the driver gives.
    None,
    /// A fraction of the device in (0, 1), as in `set_per_process_memory_fraction`.
    Fraction(f64),
    /// A number of bytes.
    Bytes(u64),
}

/// Everything that changes what the allocator does.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Blocks of this many bytes and more are not split (`max_split_size_mb`).
    pub max_split_size: Option<u64>,
    /// An unsplittable block may exceed its request by less than this many bytes
    /// (`max_non_split_rounding_mb`).
    pub max_non_split_rounding: u64,
    /// Segment for requests between 1 and 10 MiB, in bytes (`large_segment_size_mb`).
    pub large_segment: u64,
    /// Divisions between two powers of two that a request is rounded up to, per power of two from
    /// 1 MiB up; 0 and 1 leave it at 512 bytes (`roundup_power2_divisions`).
    pub roundup_power2_divisions: [u64; INTERVALS],
    /// Share of the process limit above which unused blocks are collected before memory is asked
    /// of the driver, in (0, 1) (`garbage_collection_threshold`). Without a limit it does nothing.
    pub garbage_collection_threshold: Option<f64>,
    /// How segments get their memory (`expandable_segments`).
    pub segments: Segments,
    /// What the process may reserve (`per_process_memory_fraction`, or set by the program).
    pub process_limit: ProcessLimit,
}

/// A `PYTORCH_CUDA_ALLOC_CONF` string that the allocator would refuse, or that asks for another
/// allocator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError {
    /// The option, as it was written.
    pub key: String,
    /// Its value, as it was written.
    pub value: String,
    /// The rule that the value breaks.
    pub rule: &'static str,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "allocator option `{}:{}`: {}", self.key, self.value, self.rule)
    }
}

impl std::error::Error for SettingsError {}

impl Settings {
    /// What PyTorch does when nothing is configured.
    pub const DEFAULT: Self = Self {
        max_split_size: None,
        max_non_split_rounding: LARGE_SEGMENT,
        large_segment: LARGE_SEGMENT,
        roundup_power2_divisions: [0; INTERVALS],
        garbage_collection_threshold: None,
        segments: Segments::Fixed,
        process_limit: ProcessLimit::None,
    };

    /// Reads a `PYTORCH_CUDA_ALLOC_CONF` string; an empty one gives [`Settings::DEFAULT`].
    ///
    /// Options that change nothing about device memory (pinned host memory, locking, CUDA graphs)
    /// are accepted and ignored.
    ///
    /// # Errors
    ///
    /// The first option that is unknown, malformed, out of range, or that chooses another
    /// allocator (`backend:cudaMallocAsync`).
    pub fn parse(conf: &str) -> Result<Self, SettingsError> {
        let mut settings = Self::DEFAULT;
        for option in options(conf) {
            let (key, value) = option.split_once(':').unwrap_or((option.as_str(), ""));
            settings.set(key, value).map_err(|rule| SettingsError {
                key: key.to_owned(),
                value: value.to_owned(),
                rule,
            })?;
        }
        settings.check_pairs()?;
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        match key {
            "max_split_size_mb" => self.max_split_size = Some(mebibytes(value)?),
            "max_non_split_rounding_mb" => self.max_non_split_rounding = mebibytes(value)?,
            "large_segment_size_mb" => self.large_segment = mebibytes(value)?,
            "roundup_power2_divisions" => self.roundup_power2_divisions = divisions(value)?,
            "garbage_collection_threshold" => {
                self.garbage_collection_threshold = Some(open_fraction(value)?);
            }
            "per_process_memory_fraction" => self.process_limit = memory_fraction(value)?,
            "expandable_segments" => {
                self.segments =
                    if boolean(value)? { Segments::Expandable } else { Segments::Fixed };
            }
            "backend" if value == "native" => {}
            "backend" => return Err("only the native backend is modelled"),
            "release_lock_on_cudamalloc"
            | "graph_capture_record_stream_reuse"
            | "pinned_use_cuda_host_register"
            | "pinned_use_background_threads" => {
                boolean(value)?;
            }
            "pinned_num_register_threads" | "pinned_reserve_segment_size_mb" => {
                whole(value)?;
            }
            _ => return Err("no such option"),
        }
        Ok(())
    }

    /// Limits that tie two options together, whatever their order in the string.
    fn check_pairs(&self) -> Result<(), SettingsError> {
        let too_small = |key: &str, bytes: u64| SettingsError {
            key: key.to_owned(),
            value: (bytes / MIB).to_string(),
            rule: "at least the size of a large segment, which is 20 MiB by default",
        };
        match self.max_split_size {
            Some(bytes) if bytes < self.large_segment => Err(too_small("max_split_size_mb", bytes)),
            _ if self.max_non_split_rounding < self.large_segment => {
                Err(too_small("max_non_split_rounding_mb", self.max_non_split_rounding))
            }
            _ => Ok(()),
        }
    }

    /// Bytes of the block that serves a request of `bytes` (`round_size`).
    ///
    /// # Formula
    ///
    /// max(512, ⌈bytes / 512⌉ · 512), or the next of `d` equal divisions between two powers of two
    /// where `roundup_power2_divisions` sets d > 1 and the request is above 512 · d.
    ///
    /// # Example
    ///
    /// With 8 divisions, 4 096 bytes stay (not above 512 · 8), and 5 MiB + 1 becomes 5.5 MiB.
    #[inline]
    pub fn block_size(&self, bytes: u64) -> u64 {
        if bytes < MIN_BLOCK {
            return MIN_BLOCK;
        }
        let interval = (bytes.ilog2() as usize).saturating_sub(20).min(INTERVALS - 1);
        let divisions = self.roundup_power2_divisions[interval];
        if 1 < divisions && MIN_BLOCK * divisions < bytes {
            let step = (1 << bytes.ilog2()) >> divisions.ilog2();
            return bytes.next_multiple_of(step);
        }
        bytes.next_multiple_of(MIN_BLOCK)
    }

    /// Bytes asked of the driver for a block of `size` bytes (`get_allocation_size`).
    pub fn segment_size(&self, size: u64) -> u64 {
        if size <= SMALL_BLOCK {
            SMALL_SEGMENT
        } else if size < OWN_SEGMENT {
            self.large_segment
        } else {
            size.next_multiple_of(SEGMENT_STEP)
        }
    }

    /// Step in which an expandable segment of that pool is mapped, in bytes.
    pub(super) fn page(&self, is_small: bool) -> u64 {
        if is_small { SMALL_SEGMENT } else { self.large_segment }
    }
}

/// The comma-separated options of a string, blanks removed; commas inside brackets do not count.
fn options(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut current = String::new();
    let mut is_list = false;
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        match c {
            ',' if !is_list => found.push(std::mem::take(&mut current)),
            _ => {
                is_list = (is_list || c == '[') && c != ']';
                current.push(c);
            }
        }
    }
    found.push(current);
    found.retain(|option| !option.is_empty());
    found
}

fn whole(value: &str) -> Result<u64, &'static str> {
    value.parse().or(Err("a whole number"))
}

fn mebibytes(value: &str) -> Result<u64, &'static str> {
    match whole(value)? {
        n @ 1..=0xFFF_FFFF => Ok(n * MIB),
        _ => Err("between 1 and 268435455 MiB"),
    }
}

fn boolean(value: &str) -> Result<bool, &'static str> {
    match value {
        "True" => Ok(true),
        "False" => Ok(false),
        _ => Err("True or False, so written"),
    }
}

fn open_fraction(value: &str) -> Result<f64, &'static str> {
    match value.parse::<f64>() {
        Ok(share) if 0.0 < share && share < 1.0 => Ok(share),
        _ => Err("a number above 0 and below 1"),
    }
}

/// A fraction of 1 lifts the limit (`setMemoryFraction`).
fn memory_fraction(value: &str) -> Result<ProcessLimit, &'static str> {
    match value.parse::<f64>() {
        Ok(share) if 0.0 < share && share < 1.0 => Ok(ProcessLimit::Fraction(share)),
        Ok(share) if 1.0 <= share && share <= 1.0 => Ok(ProcessLimit::None),
        _ => Err("a number above 0, at most 1"),
    }
}

/// `8`, or `[256:1,512:2,1024:4,>:8]` with the intervals in MiB.
///
/// The first interval's value also holds for all below it, that of `>` for all above the last
/// one named; intervals in between that are not named keep 0.
fn divisions(value: &str) -> Result<[u64; INTERVALS], &'static str> {
    let Some(list) = value.strip_prefix('[') else {
        let n = whole(value)?;
        return if n.is_power_of_two() { Ok([n; INTERVALS]) } else { Err("a power of two") };
    };
    let list = list.strip_suffix(']').ok_or("a closing bracket")?;
    let mut table = [0; INTERVALS];
    let mut named = None;
    for pair in list.split(',').filter(|pair| !pair.is_empty()) {
        let (interval, n) = pair.split_once(':').ok_or("INTERVAL:DIVISIONS in each entry")?;
        let n = whole(n)?;
        if n != 0 && !n.is_power_of_two() {
            return Err("divisions that are 0 or a power of two");
        }
        if interval == ">" {
            table[named.map_or(1, |at: usize| at + 1)..].fill(n);
            continue;
        }
        let mib = whole(interval)?;
        if !mib.is_power_of_two() {
            return Err("intervals that are powers of two, in MiB");
        }
        let at = (mib.ilog2() as usize).min(INTERVALS - 1);
        if named.is_none() {
            table[..at].fill(n);
        }
        table[at] = n;
        named = Some(at);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_the_framework_reads_them() {
        let options = "max_split_size_mb:40, max_non_split_rounding_mb:30,\
                    garbage_collection_threshold:0.5,\
                    roundup_power2_divisions:[64:8,128:2,256:4,512:2,1024:4,>:1],\
                    expandable_segments:True,pinned_use_background_threads:True,";
        let settings = Settings::parse(options).unwrap();
        assert_eq!(settings.max_split_size, Some(40 * MIB));
        assert_eq!(settings.max_non_split_rounding, 30 * MIB);
        assert_eq!(settings.garbage_collection_threshold, Some(0.5));
        assert_eq!(settings.segments, Segments::Expandable);
        let expected = [8, 8, 8, 8, 8, 8, 8, 2, 4, 2, 4, 1, 1, 1, 1, 1];
        assert_eq!(settings.roundup_power2_divisions, expected);
        assert_eq!(Settings::parse("").unwrap(), Settings::DEFAULT);
    }

    #[test]
    fn unnamed_intervals_keep_no_rounding() {
        let settings =
            Settings::parse("roundup_power2_divisions:[128:8,256:16,512:1,2048:8,>:2]").unwrap();
        let table = settings.roundup_power2_divisions;
        assert_eq!(table[6..13], [8, 8, 16, 1, 0, 8, 2]);
    }

    #[test]
    fn errors_name_the_key() {
        for (options, key) in [
            ("foo:123", "foo"),
            ("max_split_size_mb:4", "max_split_size_mb"),
            ("max_split_size_mb", "max_split_size_mb"),
            ("max_split_size_mb:20,large_segment_size_mb:25", "max_split_size_mb"),
            ("garbage_collection_threshold:1.5", "garbage_collection_threshold"),
            ("roundup_power2_divisions:3", "roundup_power2_divisions"),
            ("roundup_power2_divisions:[64:8", "roundup_power2_divisions"),
            ("expandable_segments:true", "expandable_segments"),
            ("backend:cudaMallocAsync", "backend"),
        ] {
            assert_eq!(Settings::parse(options).unwrap_err().key, key, "{options}");
        }
    }

    #[test]
    fn sizes_by_hand() {
        let default = Settings::DEFAULT;
        let eighths = Settings::parse("roundup_power2_divisions:8").unwrap();
        for (request, block) in [(1, 512), (512, 512), (513, 1024), (MIB + 1, MIB + 512)] {
            assert_eq!(default.block_size(request), block);
        }
        for (request, block) in
            [(4096, 4096), (4097, 4608), (5 * MIB + 1, 5 * MIB + MIB / 2), (8 * MIB, 8 * MIB)]
        {
            assert_eq!(eighths.block_size(request), block);
        }
        for (size, segment) in [
            (512, 2 * MIB),
            (MIB, 2 * MIB),
            (MIB + 512, 20 * MIB),
            (10 * MIB - 512, 20 * MIB),
            (10 * MIB, 10 * MIB),
            (11 * MIB, 12 * MIB),
        ] {
            assert_eq!(default.segment_size(size), segment);
        }
    }
}
