//! Sending the rows of two large sides to the tasks of a cluster.
//!
//! ```text
//!  left ─┬─► AxisHistogramExec ──┐ all partitions, read whole by each task below
//! right ─│┬► AxisHistogramExec ─┐│
//!        ││                     ▼▼
//!        │└► AxisGridExec ─► rows, once for each task that may join them ─┐ hash of the task:
//!        └─► AxisGridExec ─► rows, once for each task that may join them ┐│ the engine's shuffle
//!                                                                        ▼▼
//!                     SetSimilarityJoinExec, partitioned: the task is its first blocking key
//! ```
//!
//! `place` says where a row lies on the axis, `grid` what the tasks share. `histogram` counts rows by
//! the positions of their items, `tiling` makes tiles of even work from
//! the counts (`region` estimates the work, `triangle` makes the tiles of an input that is both
//! sides), `expand` is the operator that sends the rows, `send` its stream. A row's tile is a
//! blocking key of the join above: two rows meet in the one tile that holds both, whichever
//! partition the shuffle brings it to, and no pair is found twice.

pub(crate) mod expand;
pub(crate) mod grid;
pub(crate) mod heavy;
pub(crate) mod histogram;
pub(crate) mod measure;
pub(crate) mod place;
pub(crate) mod placed;
pub(crate) mod region;
pub(crate) mod send;
#[cfg(test)]
mod tests;
pub(crate) mod tiling;
pub(crate) mod triangle;

pub use expand::AxisGridExec;
pub use grid::{Grid, GridPairs, GridSpec};
pub use histogram::{Counter, Histogram};
pub use measure::AxisHistogramExec;
pub use place::{Place, place_of};
pub use placed::PlacedRows;
pub use tiling::Tiling;
