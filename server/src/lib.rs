//! The binary `tidemark`: command line, server and API around the simulator.
//!
//! ```text
//! main ─► cli ─► commands ─► simulator                 (simulate, bench, models, gpus, …)
//!                   └─► listen ─► router ─► routes ─► simulator | store
//!                                    └─► site ─► bundle
//! ```
//!
//! `store` knows SQL and no HTTP; `routes` know HTTP and no SQL.

#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
mod output;

pub mod auth;
pub mod bundle;
mod error;
mod extract;
mod fixed;
mod headers;
pub mod listen;
mod observe;
pub mod openapi;
pub mod rate;
mod router;
mod routes;
pub mod short_id;
mod site;
mod state;
pub mod store;

pub use error::Code;
pub use router::router;
pub use state::{ApiSettings, App};
