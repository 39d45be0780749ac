//! Filters: which pairs of sets may match. A filter may only over-approximate.

pub(crate) mod inverted_index;
pub(crate) mod positional;
pub(crate) mod postings;
pub(crate) mod prefix;
pub(crate) mod signature;
pub(crate) mod size_bounds;
pub(crate) mod suffix_test;

pub use positional::PositionalIndex;
pub(crate) use positional::PositionalSource;
pub use prefix::PrefixIndex;
pub(crate) use signature::{ProbeSignature, SignatureScheme, Signatures};
pub(crate) use suffix_test::{Every, SuffixTest};
