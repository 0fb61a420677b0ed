//! Files that people already have become scenarios or parts of them.

mod capture;
mod hf_config;

pub use capture::capture_case;
pub use hf_config::hf_config;
