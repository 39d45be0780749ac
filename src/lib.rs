//! Exact set-similarity joins for Apache DataFusion.

pub mod config;
pub mod exec;
pub mod functions;
pub mod measure;
pub mod plan;
pub mod sets;
pub mod sql;
