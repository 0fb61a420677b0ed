//! What a run leaves behind: storages, requests in host order, operations, phases.

use crate::clock::Work;
use crate::wire::timeline::{Category, PhaseKind};

use super::label::{Prim, Scope};
use super::node::ParamId;

/// A storage: one allocation from its birth to its free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StorageId(u32);

impl StorageId {
    /// A storage of no bytes: never allocated.
    pub const NONE: Self = Self(u32::MAX);

    /// The position in [`Recorded::storages`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Requested bytes.
    pub bytes: u64,
    /// References held.
    pub references: u32,
    /// The stream whose memory it is from; 0 is the default one.
    pub stream: u8,
    /// What it is for.
    pub category: Category,
    /// The primitive that made it.
    pub prim: Prim,
    /// Where it was made.
    pub scope: Scope,
    /// The parameter that it belongs to, if it is one, its gradient, or its state.
    pub owner: Option<ParamId>,
}

/// A request to the allocator, in host order: an allocation or a free of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request(u32);

impl Request {
    const fn new(storage: StorageId, is_alloc: bool) -> Self {
        Self(storage.0 << 1 | is_alloc as u32)
    }

    /// Which storage.
    pub const fn storage(self) -> StorageId {
        StorageId(self.0 >> 1)
    }

    /// Whether it is an allocation.
    pub const fn is_alloc(self) -> bool {
        self.0 & 1 == 1
    }
}

/// One operation issued by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpRecord {
    /// Requests made before it was issued.
    pub request: u32,
    /// Primitive.
    pub prim: Prim,
    /// Where.
    pub scope: Scope,
    /// Its work.
    pub work: Work,
}

/// A phase's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseStart {
    /// Which.
    pub kind: PhaseKind,
    /// Micro-batch.
    pub micro_batch: u32,
    /// First request.
    pub request: u32,
    /// First operation.
    pub op: u32,
}

/// What a stage of a pipeline does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// A micro-batch's forward, with what it receives.
    Forward,
    /// A micro-batch's backward.
    Backward,
    /// What comes from a neighbour for the next forward.
    Exchange,
    /// What follows the last backward.
    Finalize,
    /// What goes at the end of the step.
    End,
}

/// Where a slot of a pipeline's schedule begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// First request.
    pub request: u32,
    /// Which.
    pub kind: SlotKind,
    /// The model chunk.
    pub chunk: u32,
    /// Micro-batch of a forward or backward.
    pub micro_batch: u32,
}

/// Where the layer changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// First request of the layer.
    pub request: u32,
    /// The layer; a record begins outside of any.
    pub layer: Option<u32>,
}

/// What a run left behind.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// All storages; the first `n_before` existed before.
    pub storages: Vec<Storage>,
    /// How many existed before.
    pub n_before: usize,
    /// Requests in host order.
    pub requests: Vec<Request>,
    /// Operations in host order.
    pub ops: Vec<OpRecord>,
    /// Phases in order.
    pub phases: Vec<PhaseStart>,
    /// Changes of the layer, in order.
    pub marks: Vec<Mark>,
    /// Slots of a pipeline's schedule, in order.
    pub slots: Vec<Slot>,
    /// Requests made before `torch.cuda.empty_cache()` was called, if it was.
    pub empty_cache: Option<u32>,
    /// The stream that allocations are for.
    pub(super) stream: u8,
    live_bytes: u64,
    /// Requested bytes alive at the beginning.
    pub base_bytes: u64,
}

#[expect(clippy::cast_possible_truncation, reason = "a step has far fewer than 2^31 requests")]
impl Recorded {
    /// An empty record with room for some layers.
    pub(super) fn roomy() -> Self {
        let (storages, requests) = (Vec::with_capacity(2048), Vec::with_capacity(4096));
        Self { storages, requests, ..Self::default() }
    }

    pub(super) fn phase(&mut self, kind: PhaseKind, micro_batch: u32) {
        let (request, op) = (self.requests.len() as u32, self.ops.len() as u32);
        self.phases.push(PhaseStart { kind, micro_batch, request, op });
    }

    pub(super) fn mark(&mut self, layer: Option<u32>) {
        let request = self.requests.len() as u32;
        match self.marks.last_mut() {
            Some(last) if last.request == request => last.layer = layer,
            _ => self.marks.push(Mark { request, layer }),
        }
    }

    pub(super) fn slot(&mut self, kind: SlotKind, chunk: u32, micro_batch: u32) {
        let request = self.requests.len() as u32;
        self.slots.push(Slot { request, kind, chunk, micro_batch });
    }

    pub(super) fn empty_cache(&mut self) {
        self.empty_cache = Some(self.requests.len() as u32);
    }

    pub(super) fn allocate(&mut self, bytes: u64, prim: Prim, scope: Scope) -> StorageId {
        if bytes == 0 {
            return StorageId::NONE;
        }
        let id = StorageId(self.storages.len() as u32);
        let category = Category::Temporaries;
        let (references, stream) = (1, self.stream);
        let owner = None;
        self.storages.push(Storage { bytes, references, stream, category, prim, scope, owner });
        self.requests.push(Request::new(id, true));
        self.live_bytes += bytes;
        id
    }

    pub(super) fn retain(&mut self, id: StorageId) {
        if id != StorageId::NONE {
            self.storages[id.index()].references += 1;
        }
    }

    pub(super) fn release(&mut self, id: StorageId) {
        if id == StorageId::NONE {
            return;
        }
        let storage = &mut self.storages[id.index()];
        storage.references =
            storage.references.checked_sub(1).expect("a released reference was held");
        if storage.references == 0 {
            self.live_bytes -= storage.bytes;
            self.requests.push(Request::new(id, false));
        }
    }

    pub(super) fn references(&self, id: StorageId) -> u32 {
        if id == StorageId::NONE { 1 } else { self.storages[id.index()].references }
    }

    pub(super) fn categorise(&mut self, id: StorageId, category: Category) {
        if id != StorageId::NONE {
            self.storages[id.index()].category = category;
        }
    }

    pub(super) fn own(&mut self, id: StorageId, owner: ParamId) {
        if id != StorageId::NONE {
            self.storages[id.index()].owner = Some(owner);
        }
    }

    /// A temporary that is kept for backward becomes an activation.
    pub(super) fn keep(&mut self, id: StorageId) {
        if id != StorageId::NONE && self.storages[id.index()].category == Category::Temporaries {
            self.storages[id.index()].category = Category::Activations;
        }
    }

    pub(super) fn operation(&mut self, prim: Prim, scope: Scope, work: Work) {
        self.ops.push(OpRecord { request: self.requests.len() as u32, prim, scope, work });
    }

    /// Requested bytes alive now.
    pub const fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// A new record whose past is the storages still alive, with their new and old numbers.
    pub(super) fn successor(&self) -> (Self, Renumbered, Vec<u32>) {
        // The next run is like this one.
        let mut next = Self {
            live_bytes: self.live_bytes,
            base_bytes: self.live_bytes,
            storages: Vec::with_capacity(self.storages.len()),
            requests: Vec::with_capacity(self.requests.len()),
            ops: Vec::with_capacity(self.ops.len()),
            ..Self::default()
        };
        let mut renumbered = vec![StorageId::NONE; self.storages.len()];
        let mut origin = Vec::new();
        for (old, storage) in self.storages.iter().enumerate() {
            if 0 < storage.references {
                renumbered[old] = StorageId(next.storages.len() as u32);
                origin.push(old as u32);
                next.storages.push(*storage);
            }
        }
        next.n_before = next.storages.len();
        (next, Renumbered(renumbered), origin)
    }
}

/// New numbers of storages by their old ones.
pub(super) struct Renumbered(Vec<StorageId>);

impl Renumbered {
    /// The new number of a storage that is still alive.
    pub(super) fn of(&self, id: StorageId) -> StorageId {
        if id == StorageId::NONE {
            return id;
        }
        let new = self.0[id.index()];
        assert!(new != StorageId::NONE, "a held storage is alive");
        new
    }
}
