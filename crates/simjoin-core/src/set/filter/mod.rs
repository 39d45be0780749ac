//! Filters: which pairs of sets may match. A filter may only over-approximate.

pub(crate) mod inverted_index;
pub mod positional;
pub mod postings;
pub mod prefix;
pub mod signature;
pub mod size_bounds;
pub(crate) mod suffix_test;

pub use positional::PositionalIndex;
pub use positional::PositionalSource;
pub use prefix::PrefixIndex;
pub use signature::SignatureScheme;
pub(crate) use signature::{ProbeSignature, Signatures};
pub use suffix_test::Every;
pub(crate) use suffix_test::SuffixTest;
