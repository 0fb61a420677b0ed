//! Tensors as the framework hands them around: shape, dtype, and which storage stands behind.

mod dtype;
mod shape;

pub use dtype::DType;
pub use shape::{Layout, Shape};
