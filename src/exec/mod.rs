//! The physical operator.
//!
//! [`SimilarityJoin`] says what is computed; `layout` resolves it into a probe side and what each
//! match yields. `build` collects and indexes one side, `probe` streams the other against it,
//! `mode` says what partitions share, `blocks` turns pairs of sets into blocks of pairs of rows and `pairs` those into columns, `emit` lists single rows, `output` makes
//! batches. [`grid`] sends the rows of large sides to the tasks of a cluster. Algorithms live behind [`crate::strategy`].

mod blocks;
mod build;
mod consume;
mod cores;
mod emit;
pub mod grid;
pub(crate) mod hands_on;
mod headroom;
mod layout;
mod metrics;
mod mode;
mod once;
mod output;
mod pairs;
mod parts;
mod payload;
mod probe;
mod ranks;
mod read;
mod schedule;
mod similarity_join;
mod slices;
mod spec;
mod spill;
#[cfg(test)]
mod tests;
mod visited;

pub use cores::ProcessCores;
pub use mode::JoinMode;
pub use parts::JoinPartsExec;
pub use similarity_join::{JoinInput, SetSimilarityJoinExec};
pub use spec::{
    CountOf, MeasureCall, Need, OutputColumn, Residual, ResidualColumn, Side, SimilarityJoin,
};
