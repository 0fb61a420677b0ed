//! Between answer and pixels: plain rows, without Leptos or the browser, tested natively.

pub(crate) mod allocator;
pub(crate) mod live;
pub(crate) mod peak;
pub(crate) mod ranks;
pub(crate) mod verdict;
