//! Checksums of shuffle files, in which a stage leaves its rows for the next one.
//!
//! Ballista writes them as Arrow IPC, which has no checksums, and trusts what it reads: a bit that has
//! flipped on the disk would make another answer. So the task that has written a file leaves the
//! checksums of its blocks beside it, and they are compared before the first byte of the file is
//! decoded or sent: by a task that reads a file of its own executor before it begins ([`stage`]), and
//! by the executor that serves a file before it does ([`serve`]).
//!
//! ```text
//!  task ─► data.arrow ─► data.arrow.crc32         task of this executor: check, read
//!          (Ballista)     (seal, at its end)      request of another:    check, send
//! ```
//!
//! A file that has changed is lost rows to the scheduler, which has the stage make them again.

mod files;
mod serve;
mod stage;

pub(super) use serve::check_fetch;
pub(super) use stage::CheckedEngine;
