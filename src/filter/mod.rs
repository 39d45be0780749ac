//! Filters: which pairs of sets may match. A filter may only over-approximate.

mod group;
mod group_index;
mod inverted_index;
mod prefix;
mod size_bounds;

pub use group::{GroupFilter, GroupSource};
pub use inverted_index::InvertedIndex;
pub use prefix::{PrefixIndex, PrefixSource};
