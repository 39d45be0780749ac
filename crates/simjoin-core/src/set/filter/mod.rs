//! Filters: which pairs of sets may match. A filter may only over-approximate.

pub mod allpairs;
pub(crate) mod inverted_index;
pub mod postings;
pub mod ppjoin;
pub mod signature;
pub mod size_bounds;
pub(crate) mod suffix_test;

pub use allpairs::PrefixIndex;
pub use ppjoin::PositionalIndex;
pub use ppjoin::PositionalSource;
pub use signature::SignatureScheme;
pub(crate) use signature::{ProbeSignature, Signatures};
pub use suffix_test::Every;
pub use suffix_test::SuffixTest;
