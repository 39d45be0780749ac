//! Sets of tokens: the first family.
//!
//! Each module uses only those that stand before it:
//!
//! ```text
//! runs.rs             sets of one key and size        measure.rs       the similarities, exact bounds
//! intersection/       overlaps of large sets          axis.rs          rows by the size of their set
//! collection.rs       distinct sets, in CSR form
//! join_spec.rs        a join of two collections       candidates.rs    pairs that passed a filter
//! candidate_source.rs what proposes them              verify/          what decides them
//! rates.rs            kernels on this processor       filter/          which pairs may match
//! itself.rs           sets that match themselves      statistics.rs    figures of a collection
//! sample.rs           pairs that are tried            join.rs          what estimates share
//! probed.rs           figures of known probe rows
//! encode/             from Arrow lists to sets        stored.rs        rows on disk
//! shape.rs            rows for the tasks of a cluster costs.rs         the cost of candidates
//! candidate_join.rs   candidates, decided on the CPU  nested_loop.rs   all pairs, without memory
//! filter_verify.rs    ppjoin, allpairs                bitmap/          signatures, in blocks
//! scancount/          what all sets share, counted    bitsliced/       overlaps by sums of bits
//! rising/             the nearest sets of each set
//! strategies.rs, matcher.rs, family.rs                what the operator sees
//! ```

pub mod axis;
pub mod bitmap;
mod bitsliced;
pub mod candidate_join;
mod candidate_source;
pub mod candidates;
pub mod collection;
pub mod costs;
pub mod encode;
pub mod family;
pub mod filter;
pub mod filter_verify;
pub mod intersection;
pub mod itself;
pub mod join;
pub mod join_spec;
pub mod matcher;
pub mod measure;
pub mod nested_loop;
mod probed;
pub mod rates;
mod rising;
pub mod runs;
mod sample;
pub mod scancount;
mod shape;
pub mod statistics;
pub mod stored;
pub mod strategies;
#[cfg(test)]
pub mod tests;
pub mod verify;

pub use candidate_join::CandidateJoin;
pub use candidate_source::{CandidateFilter, CandidateSource, SourceProgress};
pub use candidates::{Candidate, CandidateChunk};
pub use collection::SetCollection;
pub use encode::BuildEncoder;
pub use family::SetFamily;
pub use join::SetJoin;
pub use join_spec::{JoinSpec, SetUnit};
pub use measure::{Bounds, Measure, Role};
pub use runs::{Run, SetId};
