//! One sort of tensors for the whole page: every further instance would be kilobytes to transfer.

use core::cmp::Ordering;

/// Sorts tensors; of equals the order stays.
pub(crate) fn sort_tensors(tensors: &mut [u32], order: &dyn Fn(u32, u32) -> Ordering) {
    tensors.sort_by(|&left, &right| order(left, right));
}
