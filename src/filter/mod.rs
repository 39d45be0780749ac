//! Filters: which pairs of sets may match. A filter may only over-approximate.

mod group;
mod group_index;
mod inverted_index;
mod positional;
mod postings;
mod prefix;
pub(crate) mod signature;
pub(crate) mod size_bounds;
mod suffix_test;

pub use group::{GroupFilter, GroupSource};
pub use inverted_index::InvertedIndex;
pub use positional::{PositionalIndex, PositionalSource};
pub use postings::SignaturePostings;
pub(crate) use prefix::indexed_prefix;
pub use prefix::{PrefixIndex, PrefixSource};
pub use signature::{ProbeSignature, SignatureScheme, Signatures};
pub(crate) use suffix_test::{Every, SuffixTest};
