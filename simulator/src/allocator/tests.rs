//! Properties of the allocator under random requests, and its rules by hand.

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

/// One step of a random program.
#[derive(Debug, Clone, Copy)]
enum Step {
    Alloc { bytes: u64, stream: u32 },
    Free { nth: usize },
    Defer { nth: usize },
    Complete { nth: usize },
    EmptyCache,
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![1..4096u64, 4097..MIB, MIB..10 * MIB, 10 * MIB..200 * MIB, 200 * MIB..1500 * MIB]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (size(), 0..3u32).prop_map(|(bytes, stream)| Step::Alloc { bytes, stream }),
        6 => any::<usize>().prop_map(|nth| Step::Free { nth }),
        1 => any::<usize>().prop_map(|nth| Step::Defer { nth }),
        1 => any::<usize>().prop_map(|nth| Step::Complete { nth }),
        1 => Just(Step::EmptyCache),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let conf = prop::sample::select(vec![
        "",
        "max_split_size_mb:128",
        "roundup_power2_divisions:8",
        "garbage_collection_threshold:0.6",
        "expandable_segments:True",
        "expandable_segments:True,roundup_power2_divisions:[1:4,64:2,>:8]",
    ]);
    let limit = prop_oneof![
        Just(ProcessLimit::None),
        (2..12u64).prop_map(|gib| { ProcessLimit::Bytes(gib << 30) })
    ];
    (conf, limit).prop_map(|(conf, process_limit)| Settings {
        process_limit,
        ..Settings::parse(conf).unwrap()
    })
}

type Allocator = CachingAllocator<Counting>;

/// Blocks handed out and blocks deferred, by the program's own book.
#[derive(Default)]
struct Book {
    live: Vec<Block>,
    deferred: Vec<Block>,
}

impl Book {
    fn run(&mut self, allocator: &mut Allocator, step: Step) {
        match step {
            Step::Alloc { bytes, stream } => match allocator.alloc(bytes, stream) {
                Ok(block) => self.live.push(block),
                Err(error) => assert_eq!(error.requested, bytes),
            },
            Step::Free { nth } if !self.live.is_empty() => {
                allocator.free(self.live.swap_remove(nth % self.live.len()));
            }
            Step::Defer { nth } if !self.live.is_empty() => {
                let block = self.live.swap_remove(nth % self.live.len());
                allocator.defer_free(block);
                self.deferred.push(block);
            }
            Step::Complete { nth } if !self.deferred.is_empty() => {
                let block = self.deferred.swap_remove(nth % self.deferred.len());
                let active = allocator.stats().active;
                let is_completed = allocator.complete_free(block);
                assert_eq!(is_completed, allocator.stats().active < active);
            }
            Step::EmptyCache => allocator.empty_cache(),
            _ => {}
        }
    }
}

/// All that must hold between two requests.
fn check(allocator: &Allocator, book: &Book) {
    let stats = allocator.stats();
    let live: u64 = book.live.iter().map(|&block| allocator.size(block)).sum();
    assert_eq!(stats.allocated, live);
    assert!(stats.requested <= stats.active && stats.active <= stats.reserved);
    // The limit is checked for the request, and pages are mapped whole.
    let slack = match allocator.settings.segments {
        Segments::Fixed => 0,
        Segments::Expandable => allocator.settings.large_segment,
    };
    assert!(stats.reserved <= allocator.limit().saturating_add(slack));
    assert!(stats.reserved <= stats.peak_reserved);
    let mut ranges: Vec<_> =
        book.live.iter().map(|&block| (allocator.address(block), allocator.size(block))).collect();
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "blocks overlap");
    check_lists(allocator);
}

/// The free lists hold exactly the free blocks, in order, and no two free neighbours.
fn check_lists(allocator: &Allocator) {
    let slots = &allocator.arena.slots;
    let mut mapped = 0;
    for slot in slots {
        mapped += if matches!(slot.state, State::Unmapped | State::Vacant) { 0 } else { slot.size };
        if matches!(slot.state, State::Free | State::Unmapped) && slot.next != NONE {
            let next = &slots[slot.next as usize];
            assert_ne!(next.state, slot.state, "neighbours of one kind are merged");
            assert_eq!(slot.address + slot.size, next.address);
        }
    }
    assert_eq!(mapped, allocator.stats.reserved, "every reserved byte is in one block");
    let free = slots.iter().filter(|slot| slot.state == State::Free).count();
    assert_eq!(free, allocator.pools.iter().map(|pool| pool.free.ids().count()).sum::<usize>());
    for pool in &allocator.pools {
        let keys: Vec<_> = pool.free.ids().map(|id| slots[id as usize]).collect();
        let keys: Vec<_> = keys.iter().map(|slot| (slot.size, slot.address)).collect();
        assert!(keys.is_sorted(), "free blocks by size and address");
        let unmapped: Vec<_> = pool.unmapped.iter().map(|&id| slots[id as usize].address).collect();
        assert!(unmapped.is_sorted());
    }
}

proptest! {
    #[test]
    fn random_programs_keep_the_books(
        settings in settings(),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let driver = Counting::new(16 << 30, 14 << 30);
        let mut allocator = CachingAllocator::new(settings, driver);
        let mut book = Book::default();
        for step in steps {
            book.run(&mut allocator, step);
            check(&allocator, &book);
        }
        for block in book.live.drain(..) {
            allocator.free(block);
        }
        prop_assert_eq!(allocator.allocated(), 0);
        allocator.empty_cache();
        prop_assert_eq!(allocator.reserved(), 0);
        prop_assert_eq!(allocator.driver().free_bytes(), 14 << 30);
        prop_assert_eq!((allocator.stats.active, allocator.stats.requested), (0, 0));
    }
}

fn allocator(conf: &str, limit: u64) -> Allocator {
    let process_limit = ProcessLimit::Bytes(limit);
    let settings = Settings { process_limit, ..Settings::parse(conf).unwrap() };
    CachingAllocator::new(settings, Counting::unlimited())
}

#[test]
fn small_blocks_share_a_segment() {
    let mut allocator = allocator("", 1 << 30);
    let first = allocator.alloc(100, 0).unwrap();
    let second = allocator.alloc(MIB, 0).unwrap();
    assert_eq!(allocator.address(second), allocator.address(first) + 512);
    assert_eq!((allocator.reserved(), allocator.largest_free()), (2 * MIB, MIB - 512));
    let other_stream = allocator.alloc(100, 1).unwrap();
    assert_eq!((allocator.size(other_stream), allocator.reserved()), (512, 4 * MIB));
}

#[test]
fn a_large_remainder_of_a_mebibyte_is_not_split() {
    let mut allocator = allocator("", 1 << 30);
    let whole = allocator.alloc(11 * MIB, 0).unwrap();
    let split = allocator.alloc(9 * MIB, 0).unwrap();
    assert_eq!((allocator.size(whole), allocator.size(split)), (12 * MIB, 9 * MIB));
}

#[test]
fn a_refusal_releases_what_is_unused_and_asks_again() {
    let mut allocator = allocator("", 100 * MIB);
    let block = allocator.alloc(60 * MIB, 0).unwrap();
    allocator.free(block);
    allocator.alloc(80 * MIB, 0).unwrap();
    assert_eq!((allocator.reserved(), allocator.stats().retries), (80 * MIB, 1));
    let error = allocator.alloc(30 * MIB, 0).unwrap_err();
    assert_eq!((error.segment, error.reserved), (30 * MIB, 80 * MIB));
    assert_eq!((allocator.stats().retries, allocator.stats().ooms), (2, 1));
}

#[test]
fn an_oversize_block_serves_only_its_like() {
    let mut allocator = allocator("max_split_size_mb:128", 1000 * MIB);
    let big = allocator.alloc(200 * MIB, 0).unwrap();
    allocator.free(big);
    let small = allocator.alloc(100 * MIB, 0).unwrap();
    assert_eq!(allocator.reserved(), 300 * MIB, "200 MiB must not be split");
    let rounded = allocator.alloc(181 * MIB, 0).unwrap();
    assert_eq!(allocator.size(rounded), 200 * MIB, "within 20 MiB");
    allocator.free(small);
    allocator.free(rounded);
    allocator.alloc(800 * MIB, 0).unwrap();
    assert_eq!((allocator.reserved(), allocator.stats().retries), (800 * MIB, 1));
}

#[test]
fn garbage_is_collected_above_the_threshold_oldest_first() {
    let mut allocator = allocator("garbage_collection_threshold:0.5", 1000 * MIB);
    let old = allocator.alloc(300 * MIB, 0).unwrap();
    let young = allocator.alloc(250 * MIB, 0).unwrap();
    allocator.free(old);
    for _ in 0..10 {
        let block = allocator.alloc(2 * MIB, 1).unwrap();
        allocator.free(block);
    }
    allocator.free(young);
    allocator.alloc(400 * MIB, 0).unwrap();
    assert_eq!(allocator.reserved(), (250 + 20 + 400) * MIB);
}

#[test]
fn expandable_segments_grow_in_pages_and_give_them_back() {
    let mut allocator = allocator("expandable_segments:True", 1 << 30);
    let first = allocator.alloc(30 * MIB, 0).unwrap();
    assert_eq!(allocator.reserved(), 40 * MIB);
    let second = allocator.alloc(30 * MIB, 0).unwrap();
    assert_eq!(allocator.address(second), allocator.address(first) + 30 * MIB);
    assert_eq!(allocator.reserved(), 60 * MIB);
    allocator.free(second);
    allocator.empty_cache();
    assert_eq!(allocator.reserved(), 40 * MIB, "the page that both share stays");
    allocator.free(first);
    allocator.empty_cache();
    assert_eq!(allocator.reserved(), 0);
}
