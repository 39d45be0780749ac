//! Exact set-similarity joins for Apache DataFusion.

pub mod cancel;
#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
pub mod exec;
pub mod filter;
pub mod functions;
pub mod measure;
pub mod plan;
pub mod session;
pub mod sets;
pub mod sql;
pub mod strategy;
pub mod verify;

pub use session::{install, install_parts};
