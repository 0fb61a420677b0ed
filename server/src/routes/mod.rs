//! The handlers: extract, authorise, one call, respond.

pub(crate) mod catalog;
pub(crate) mod health;
pub(crate) mod scenarios;
pub(crate) mod simulate;
