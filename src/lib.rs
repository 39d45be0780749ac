//! Exact set-similarity joins for Apache DataFusion.

#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
pub mod exec;
pub mod functions;
pub mod measure;
pub mod plan;
pub mod sets;
pub mod sql;
