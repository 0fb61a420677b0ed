//! The chores of the house: build the bundle, serve, test, and hold the rules (`tidy`).
//!
//! A library, so that `cargo test -p xtask` runs the rules as tests; `main.rs` is only the
//! command line. Whatever CI does is one of these functions, so a person can do it too.

pub mod accuracy;
pub mod bundle;
pub mod chores;
pub mod counts;
pub mod node;
pub mod rust;
pub mod shell;
pub mod stages;
pub mod system;
pub mod tidy;
