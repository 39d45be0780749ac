//! Filters: which pairs of sets may match. A filter may only over-approximate.

mod inverted_index;
mod prefix;
mod size_bounds;

pub use inverted_index::InvertedIndex;
pub use prefix::{PrefixIndex, PrefixSource};
