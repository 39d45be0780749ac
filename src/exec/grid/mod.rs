//! Sending the rows of two large sides to the tasks of a cluster.
//!
//! ```text
//!  left ─┬─► SizeHistogramExec ──┐ all partitions, read whole by each task below
//! right ─│┬► SizeHistogramExec ─┐│
//!        ││                     ▼▼
//!        │└► SizeGridExec ─► rows, once for each task that may join them ─┐ hash of the task:
//!        └─► SizeGridExec ─► rows, once for each task that may join them ┐│ the engine's shuffle
//!                                                                        ▼▼
//!                     SetSimilarityJoinExec, partitioned: the task is its first blocking key
//! ```
//!
//! `histogram` counts rows by the sizes of their sets, `tiling` makes tasks of even work from
//! that (`region` estimates it), `expand` is the operator that sends the rows, `send` how. A row's task is a
//! blocking key of the join above: rows meet in the one task whose tile holds both, whichever
//! partition the shuffle brings a task to, and no pair is found twice.

mod expand;
mod histogram;
mod measure;
mod placed;
mod region;
mod send;
#[cfg(test)]
mod tests;
mod tiling;

pub use expand::{SizeGridExec, TASK_COLUMN};
pub use measure::SizeHistogramExec;
pub use placed::PlacedRows;
pub use tiling::GridSpec;
