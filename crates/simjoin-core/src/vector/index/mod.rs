//! Indexes of points: boxes around neighbours, by which a probe point finds the panels in its reach.
//!
//! ```text
//! images.rs    points of many dimensions in a few coordinates
//! order.rs     points so that neighbours lie near each other: `directory`
//! boxes.rs     panels of sixteen points, sixteen boxes a node
//! visit.rs     the way of a point down to the panels, and its distances there
//! built.rs     the points of a build side with their trees
//! cursor.rs    one partition's probe vectors
//! sample.rs    what an index will save
//! prepared.rs  the join that opens cursors
//! ```
//!
//! Distances are sums of squared differences in `f32`, in which nothing cancels: their bounds hold
//! for thresholds of any size beside the data. They prove what products prove in the nested loop; a
//! vector whose numbers do not fit `f32` is compared with all others by the function itself. Points of more than
//! sixteen dimensions are compared by images, and those that these do not reject by `f64` sums, then by the function.

mod boxes;
mod built;
mod cursor;
mod images;
mod order;
mod prepared;
mod sample;
mod visit;

#[cfg(test)]
pub(in crate::vector) mod tests;

pub(super) use built::VectorIndex;
pub(super) use cursor::CURSOR_BYTES;
pub(super) use prepared::PreparedIndex;
pub(super) use sample::{KeptIndex, SampledIndex, least_of_index, sample};
