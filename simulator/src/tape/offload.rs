//! Saved tensors in host memory (`torch.autograd.graph.save_on_cpu(pin_memory=True)`).
//!
//! Source: torch 2.11, `torch/autograd/graph.py`, `torch/csrc/autograd/saved_variable.cpp` (whatever a node
//! saves is packed, parameters too, each time anew) and `copy_requires_temporaries` in
//! `aten/src/ATen/native/cuda/Copy.cu`. A checkpoint's hooks are innermost: what it saves is not packed.

use super::node::SavedSlot;
use super::record::StorageId;
use super::{Prim, Tape};
use crate::clock::{Issue, Link, Number, Work, WorkClass};
use crate::tape::Tensor;
use crate::tensor::Layout;

/// What is in host memory.
#[derive(Debug, Default)]
pub(super) struct Offloaded {
    /// Whether what is saved goes there.
    on: bool,
    /// Bytes of each packed tensor.
    bytes: Vec<u64>,
}

impl Tape {
    /// Says whether what nodes save from now on goes to host memory.
    pub const fn offload_saved(&mut self, on: bool) {
        self.offloaded.on = on;
    }

    /// Packs a tensor, where that is asked for. What is not contiguous is copied on the device first.
    pub(super) fn pack(&mut self, tensor: &Tensor) -> Option<SavedSlot> {
        let bytes = tensor.bytes();
        if !self.offloaded.on || tensor.storage == StorageId::NONE {
            return None;
        }
        if tensor.layout != Layout::Contiguous {
            self.scratch(bytes, Prim::Copy);
        }
        self.transfer(Link::DeviceToHost, bytes);
        self.offloaded.bytes.push(bytes);
        let index = self.offloaded.bytes.len() - 1;
        Some(SavedSlot::Offloaded(u32::try_from(index).unwrap_or(u32::MAX)))
    }

    /// Brings what a node saved back, in the order in which it was saved.
    pub fn unpack(&mut self, saved: &mut [SavedSlot]) {
        for slot in saved {
            let SavedSlot::Offloaded(index) = *slot else { continue };
            let bytes = self.offloaded.bytes[index as usize];
            let storage = self.allocate(bytes, Prim::Copy);
            self.transfer(Link::HostToDevice, bytes);
            *slot = SavedSlot::Held(storage);
        }
    }

    /// Forgets what was packed: its graph is gone.
    pub fn forget_offloaded(&mut self) {
        self.offloaded.bytes.clear();
    }

    fn transfer(&mut self, link: Link, bytes: u64) {
        let class = WorkClass::Transfer(link);
        self.run(Prim::Copy, Work::sized(class, Number::Byte, bytes, Issue::Python));
    }
}
