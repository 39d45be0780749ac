//! An order of vectors in which neighbours lie near each other, with boxes around groups of them: two
//! groups whose boxes are out of reach of each other hold no pair, and need no comparison.
//!
//! ```text
//! basis.rs    a few principal coordinates of points
//! axes.rs     those of vectors
//! cells.rs    points cut at medians, again and again
//! near.rs     the same, of a few points
//! points.rs   points in these coordinates, and boxes around them
//! sample.rs   what the boxes of a sample tell of those of all
//! reach.rs    tiles of any size, and a tree of the boxes around them
//! arrange.rs  the order
//! magnitudes.rs   another one, by norms, for inner products
//! ```
//!
//! The order is that of the leaves of a k-d tree (Bentley, "Multidimensional binary search trees used
//! for associative searching", 1975) over principal coordinates. It has no part in the answer: a box
//! only proves that pairs do not match.

mod arrange;
pub(super) mod axes;
mod basis;
mod cells;
mod magnitudes;
mod near;
mod points;
mod reach;
mod sample;

#[cfg(test)]
mod tests;

pub use arrange::OrderRequest;
pub(super) use arrange::{Resources, arrange};
pub(super) use basis::Basis;
pub(super) use magnitudes::by_magnitude;
pub use reach::Reach;
