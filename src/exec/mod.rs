//! The physical operator.
//!
//! [`SimilarityJoin`] says what is computed; `layout` resolves it into a probe side and what each
//! match yields. `build` collects and indexes one side, `probe` streams the other against it,
//! `pairs` turns pairs of sets into pairs of rows, `emit` lists single rows, `output` makes
//! batches. Algorithms live behind [`crate::strategy`].

mod build;
mod emit;
mod layout;
mod metrics;
mod output;
mod pairs;
mod payload;
mod probe;
mod similarity_join;
mod spec;
#[cfg(test)]
mod tests;
mod visited;

pub use similarity_join::{JoinInput, SetSimilarityJoinExec};
pub use spec::{
    CountOf, MeasureCall, Need, OutputColumn, Residual, ResidualColumn, Side, SimilarityJoin,
};
