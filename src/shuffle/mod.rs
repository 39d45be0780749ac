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
//! `histogram` counts rows by the sizes of their sets, `tiling` makes tasks of even work from
//! that (`region` estimates it, `triangle` does it for an input that is both sides), `expand` is
//! the operator that sends the rows, `send` how. A row's tile is a blocking key of the join above:
//! rows meet in the one tile that holds both, whichever partition the shuffle brings it to, and no
//! pair is found twice.

pub(crate) mod expand;
pub(crate) mod heavy;
pub(crate) mod histogram;
pub(crate) mod measure;
pub(crate) mod placed;
pub(crate) mod region;
pub(crate) mod send;
#[cfg(test)]
mod tests;
pub(crate) mod tiling;
pub(crate) mod triangle;

#[doc(hidden)]
pub use histogram::{Counter, Histogram};
#[doc(hidden)]
pub use tiling::{Grid, Place, Tiling, place_of};

pub use expand::{AxisGridExec, TILE_COLUMN};
pub use measure::AxisHistogramExec;
pub use placed::PlacedRows;
pub use tiling::{GridPairs, GridSpec};
