//! Local files of statements: what their names mean, what is checked before they are read, and
//! errors that name them.
//!
//! ```text
//! name ─► names (~, patterns) ─► pipes (kept in a temporary file) ─► kind (format, delimiter)
//!                                                                      │
//!              planner: check (empty files, headers) ◄── tables, external (columns: text) ◄┘
//!                 │
//!                 └─► source, sink: the steps of readers and writers (reading, store), bounds of
//!                     floats (statistics), lists of numbers in Parquet (lists), CSV and JSON (text)
//! ```
//!
//! A session has the [`FilePlanner`] around its own planner, [`FileTables`] for `FROM 'name'` and
//! [`ExternalTables`] for CREATE EXTERNAL TABLE. What DataFusion remembers of files lasts for one
//! statement ([`forget_files`]). An executor of a cluster watches the plans that it is sent
//! ([`watch_plan`]); a scheduler checks the files ([`FilePlanner::for_others`]).

// The prose of a module leads its reader to the private parts as well.
#![allow(rustdoc::private_intra_doc_links)]
#![warn(missing_docs, unreachable_pub)]

mod check;
mod csv;
mod external;
mod input;
mod kind;
mod lists;
mod names;
mod pipe_writer;
mod pipes;
mod planner;
mod reading;
mod sink;
mod source;
mod statistics;
pub mod storage;
mod store;
mod tables;
mod text;

use datafusion::execution::runtime_env::RuntimeEnv;

pub use external::ExternalTables;
pub use input::Look;
pub use kind::{formats, renamed};
pub use names::{path as path_of, path_of_os, to_write, with_quoted};
pub use pipe_writer::{Pipe, is_stdout, is_written_directly};
pub use pipes::{Pipes, bytes_of_pipe, is_stdin};
pub use planner::FilePlanner;
pub use reading::{READING, quiet_panics};
pub use source::watch_plan;
pub use statistics::with_trusted_bounds;
pub use tables::FileTables;

/// Forgets what is known of files: their lists, their footers and their statistics. DataFusion
/// keeps a list for good, and takes a file for the same while its size and time are.
pub fn forget_files(runtime: &RuntimeEnv) {
    let caches = &runtime.cache_manager;
    if let Some(lists) = caches.get_list_files_cache() {
        lists.clear();
    }
    if let Some(statistics) = caches.get_file_statistic_cache() {
        statistics.clear();
    }
    caches.get_file_metadata_cache().clear();
}
