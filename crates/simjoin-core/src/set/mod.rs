//! Sets of tokens: the first family.
//!
//! Each module uses only those that stand before it:
//!
//! ```text
//! runs.rs             sets of one key and size        measure.rs       the similarities, exact bounds
//! intersection/       overlaps of large sets          axis.rs          rows by the size of their set
//! copies.rs           copies of sets on devices       collection.rs    distinct sets, in CSR form
//! join_spec.rs        a join of two collections       candidates.rs    pairs that passed a filter
//! candidate_source.rs what proposes them              verify/          what decides them
//! rates.rs            kernels on this processor       filter/          which pairs may match
//! device/             sets and candidates on a GPU    statistics.rs    figures of a collection
//! itself.rs           sets that match themselves      sample.rs        pairs that are tried
//! join.rs             what estimates share            probed.rs        figures of known probe rows
//! encode/             from Arrow lists to sets        stored.rs        rows on disk
//! shape.rs            rows for the tasks of a cluster costs.rs         the cost of candidates
//! candidate_join.rs   candidates, decided on the CPU  nested_loop.rs   all pairs, without memory
//! offload/            joins wholly on a GPU           device_verifier.rs  candidates, decided there
//! filter_verify.rs    ppjoin, allpairs                bitmap/          signatures, in blocks and tiles
//! bwjoin/             an inverted index on a GPU      scancount/       what all sets share, counted
//! bitsliced/          overlaps by sums of bits
//! nearest/            the nearest sets at once
//! strategies.rs, matcher.rs, family.rs                what the operator sees
//! ```

pub mod axis;
pub mod bitmap;
mod bitsliced;
pub mod bwjoin;
mod candidate_join;
mod candidate_source;
mod candidates;
pub mod collection;
mod copies;
pub mod costs;
pub mod device;
mod device_verifier;
pub mod encode;
pub mod family;
pub mod filter;
pub mod filter_verify;
pub mod intersection;
pub mod itself;
mod join;
mod join_spec;
pub mod matcher;
pub mod measure;
mod nearest;
pub mod nested_loop;
pub mod offload;
mod probed;
pub mod rates;
mod runs;
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
pub use device::DeviceJoin;
pub use encode::BuildEncoder;
pub use family::SetFamily;
pub use join::SetJoin;
pub use join_spec::{JoinSpec, SetUnit};
pub use measure::{Bounds, Measure, Role};
pub use runs::{Run, SetId};
