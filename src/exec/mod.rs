//! The physical operator.
//!
//! [`SimilarityJoin`](crate::spec::SimilarityJoin) says what is computed; `layout` resolves it into
//! a probe side and (`sink`) what becomes of matches, `mode` says what partitions share. Data flows so:
//!
//! ```text
//!  rows ─► build ─► build_side ─► probe ─► answer ─► output batches
//!                └► spill: both sides on disk, joined a piece at a time
//! ```
//!
//! `build` collects and indexes one side, `probe` streams the other against it, `answer` turns pairs
//! of items into rows, `partition` is one partition of the output, `node` the operator. A module
//! uses those below it only, which a test holds. Algorithms live behind [`crate::engine`].

pub(crate) mod answer;
pub(crate) mod build;
pub(crate) mod build_side;
mod cores;
pub(crate) mod expected;
pub(crate) mod hands_on;
pub(crate) mod input;
pub(crate) mod layout;
pub(crate) mod metrics;
pub(crate) mod mode;
pub(crate) mod node;
mod once;
pub(crate) mod partition;
mod parts;
pub(crate) mod probe;
mod read_once;
pub(crate) mod rows;
pub(crate) mod sink;
pub(crate) mod spill;
#[cfg(test)]
mod tests;

pub use cores::ProcessCores;
pub use input::JoinInput;
pub use metrics::NanRows;
pub use mode::JoinMode;
pub use node::SetSimilarityJoinExec;
pub use parts::JoinPartsExec;
pub use read_once::ReadOnceExec;
