//! The size of the intersection of two large sets of integers.
//!
//! ```text
//! key.rs       the integers: 32 and 64 bits, signed and not
//! merge.rs     two ascending runs: several merges of blocks in turn
//! path.rs      where a merge of two runs is cut, so that its parts are merges of their own
//! search.rs    a short run in a long one: many searches in turn
//! ascending.rs whether values ascend
//! sort.rs      values in any order, made a run
//! size.rs      which of these serves two runs, in tiles and on several cores
//! ```
//!
//! A run is a slice of strictly ascending values. Sets of integers in columns mostly are runs: they
//! are intersected where they lie, and that they ascend is seen on the way.

mod ascending;
mod key;
mod merge;
mod path;
mod search;
mod size;
mod sort;

pub use key::Key;
pub use key::SignedKey;
pub use path::cut;
pub use size::{KeySlice, size, size_if_ascending};
pub use sort::sort_distinct;

#[cfg(test)]
mod tests;
