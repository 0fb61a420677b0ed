//! The compiled program: kernels, the buffers that each makes and reads, and where each buffer dies.

use crate::clock::Work;
use crate::tape::{Attention, ParamId, Prim, Scope};
use crate::tensor::DType;
use crate::wire::timeline::Category;

/// Memory that a kernel makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer {
    pub(super) bytes: u64,
    pub(super) category: Category,
}

/// A kernel of a library whose backward takes scratch of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttentionBackward {
    pub(super) attention: Attention,
    pub(super) dtype: DType,
}

/// One kernel.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) prim: Prim,
    pub(super) scope: Scope,
    pub(super) makes: Vec<usize>,
    pub(super) reads: Vec<usize>,
    /// Buffers that nothing reads after it.
    pub(super) drops: Vec<usize>,
    pub(super) attention: Option<AttentionBackward>,
    pub(super) work: Work,
    /// Whether it is a product, which takes the library's workspace, and one with a bias.
    pub(super) product: Option<bool>,
}

/// The two compiled graphs of a model.
#[derive(Debug, Default)]
pub(in crate::program) struct Plan {
    pub(super) buffers: Vec<Buffer>,
    pub(super) forward: Vec<Step>,
    pub(super) backward: Vec<Step>,
    /// Gradients that backward returns, in the order in which they are made.
    pub(super) gradients: Vec<(ParamId, usize)>,
}

impl Plan {
    pub(super) fn buffer(&mut self, bytes: u64, category: Category) -> usize {
        self.buffers.push(Buffer { bytes, category });
        self.buffers.len() - 1
    }

    /// Every buffer dies with the last kernel that reads it; what backward was given or returns, with the
    /// whole of it.
    pub(super) fn settle(&mut self, stays: &[usize]) {
        let split = self.forward.len();
        let mut last = vec![None; self.buffers.len()];
        for (index, step) in self.forward.iter().chain(&self.backward).enumerate() {
            for &buffer in step.makes.iter().chain(&step.reads) {
                last[buffer] = Some(index);
            }
        }
        let returned = self.gradients.iter().map(|&(_, buffer)| buffer);
        for buffer in returned.chain(stays.iter().copied()) {
            last[buffer] = None;
        }
        for (buffer, index) in last.into_iter().enumerate() {
            let Some(index) = index else { continue };
            let step = if index < split {
                &mut self.forward[index]
            } else {
                &mut self.backward[index - split]
            };
            step.drops.push(buffer);
        }
    }
}
