//! The page: form, timeline and tables over the simulator, client side.

#![expect(unreachable_pub, reason = "the component macro makes props pub whatever is asked for")]

pub mod timeline;
