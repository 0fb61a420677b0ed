//! Several ranks: what PyTorch's parallelisms do around the model's own operations.
//!
//! A parallelism is a set of hooks on modules, gradients and autograd's nodes, as in PyTorch. The
//! blocks of a model do not know of it. One rank is simulated; what others do costs it no memory of
//! its own pool.

mod copies;
mod ddp;
mod fsdp;
mod tensor;
mod zero;

pub use ddp::{Ddp, DdpOptions};
pub use fsdp::{Fsdp, FsdpOptions};
pub use tensor::parallelize;
pub use zero::{ZeroOptions, zero};
