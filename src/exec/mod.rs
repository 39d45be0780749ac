//! The physical operator.
//!
//! [`SimilarityJoin`](crate::spec::SimilarityJoin) says what is computed; `layout` resolves it into
//! a probe side and what each match yields. `build` collects and indexes one side, `probe` streams
//! the other against it, `mode` says what partitions share. `answer` turns pairs of sets into rows:
//! `blocks` makes blocks of row pairs and `pairs` the columns of row pairs, `emit` lists single
//! rows, `output` makes batches. `spill` joins from disk. Algorithms live behind [`crate::engine`].

pub(crate) mod answer;
pub(crate) mod build;
mod cores;
pub(crate) mod hands_on;
pub(crate) mod layout;
pub(crate) mod metrics;
pub(crate) mod mode;
pub(crate) mod node;
mod parts;
pub(crate) mod probe;
mod spill;
#[cfg(test)]
mod tests;

pub use cores::ProcessCores;
pub use mode::JoinMode;
pub use node::{JoinInput, SetSimilarityJoinExec};
pub use parts::JoinPartsExec;
