//! cuDNN's workspaces.

use crate::clock::Pass;
use crate::tape::Conv2d;
use crate::tensor::DType;

impl Conv2d {
    /// Bytes of cuDNN's workspace for one pass.
    pub(super) fn workspace(&self, pass: Pass, dtype: DType) -> u64 {
        let _ = (pass, dtype);
        0
    }
}
