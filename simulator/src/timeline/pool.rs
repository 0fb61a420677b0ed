//! The process's allocator, fed with one run after the other.

use crate::allocator::{Block, CachingAllocator, Counting, Settings};
use crate::program::Run;
use crate::tape::{Recorded, Storage};

/// A request that could not be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Number of the request in its run.
    pub request: u32,
    /// Requested bytes.
    pub bytes: u64,
}

/// What a run made of the allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Bytes reserved before the first request.
    pub base_reserved: u64,
    /// Bytes of blocks handed out before the first request.
    pub base_allocated: u64,
    /// Bytes reserved after each request.
    pub reserved: Vec<u64>,
    /// Bytes of blocks handed out after each request.
    pub allocated: Vec<u64>,
    /// The first request that failed; nothing is replayed after it.
    pub failure: Option<Failure>,
}

/// The process's allocator and the blocks of the storages alive.
#[derive(Debug)]
pub struct Pool {
    allocator: CachingAllocator<Counting>,
    held: Vec<Option<Held>>,
    /// Whether a request that the allocator refuses is served beside it.
    is_endless: bool,
    /// Bytes served beside the allocator.
    beside_bytes: u64,
}

/// What serves a storage.
#[derive(Clone, Copy, Debug)]
enum Held {
    Block(Block),
    /// Memory of its own: the request is larger than any block, or any address space.
    Beside(u64),
}

impl Pool {
    /// An allocator on a card of `device_bytes`, of which `free_bytes` are left for it.
    pub fn new(settings: Settings, device_bytes: u64, free_bytes: u64) -> Self {
        let driver = Counting::new(device_bytes, free_bytes);
        let allocator = CachingAllocator::new(settings, driver);
        Self { allocator, held: Vec::new(), is_endless: false, beside_bytes: 0 }
    }

    /// An allocator that never fails: what a run would need, whatever the card has.
    pub fn endless(settings: Settings, device_bytes: u64) -> Self {
        Self { is_endless: true, ..Self::new(settings, device_bytes, u64::MAX) }
    }

    /// Replays a run. Storages that existed before keep their blocks.
    ///
    /// # Panics
    ///
    /// When a run does not follow the one before.
    pub fn replay(&mut self, run: &Run) -> Replayed {
        self.adopt(run);
        self.play(&run.record)
    }

    fn play(&mut self, record: &Recorded) -> Replayed {
        let n = record.requests.len();
        let mut replayed = Replayed {
            base_reserved: self.reserved(),
            base_allocated: self.allocated(),
            reserved: Vec::with_capacity(n),
            allocated: Vec::with_capacity(n),
            failure: None,
        };
        let empty_cache = record.empty_cache.map_or(usize::MAX, |request| request as usize);
        for (number, request) in record.requests.iter().enumerate() {
            if number == empty_cache {
                self.allocator.empty_cache();
            }
            let index = request.storage().index();
            if request.is_alloc() {
                let Storage { bytes, stream, .. } = record.storages[index];
                let Some(held) = self.serve(bytes, u32::from(stream)) else {
                    let request = u32::try_from(number).unwrap_or(u32::MAX);
                    replayed.failure = Some(Failure { request, bytes });
                    return replayed;
                };
                self.held[index] = Some(held);
            } else {
                match self.held[index].take().expect("a freed storage was served") {
                    Held::Block(block) => self.allocator.free(block),
                    Held::Beside(bytes) => self.beside_bytes -= bytes,
                }
            }
            replayed.reserved.push(self.reserved());
            replayed.allocated.push(self.allocated());
        }
        if empty_cache == n {
            self.allocator.empty_cache();
        }
        replayed
    }

    fn serve(&mut self, bytes: u64, stream: u32) -> Option<Held> {
        match self.allocator.alloc(bytes, stream) {
            Ok(block) => Some(Held::Block(block)),
            Err(_refused) if self.is_endless => {
                self.beside_bytes += bytes;
                Some(Held::Beside(bytes))
            }
            Err(_out_of_memory) => None,
        }
    }

    fn reserved(&self) -> u64 {
        self.allocator.reserved() + self.beside_bytes
    }

    fn allocated(&self) -> u64 {
        self.allocator.allocated() + self.beside_bytes
    }

    /// Replays a steady run once more after itself: a storage that was there at its beginning and is
    /// gone at its end has been replaced, in order, by one that was made and stays.
    ///
    /// # Panics
    ///
    /// When the run does not leave as many storages as it found.
    pub fn replay_again(&mut self, run: &Run) -> Replayed {
        let made = self.held.split_off(run.record.n_before);
        let mut made = made.into_iter().flatten();
        for held in self.held.iter_mut().filter(|held| held.is_none()) {
            *held = made.next();
        }
        let whole = self.held.iter().all(Option::is_some) && made.next().is_none();
        assert!(whole, "a steady step leaves what it found");
        self.held.resize(run.record.storages.len(), None);
        self.play(&run.record)
    }

    fn adopt(&mut self, run: &Run) {
        let old = core::mem::take(&mut self.held);
        self.held = Vec::with_capacity(run.record.storages.len());
        self.held.extend(run.origin.iter().map(|&origin| old[origin as usize]));
        assert_eq!(run.origin.len(), run.record.n_before, "every earlier storage has an origin");
        self.held.resize(run.record.storages.len(), None);
    }
}
