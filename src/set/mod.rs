//! Sets of tokens: the first family.
//!
//! [`Measure`] defines the similarities, [`Bounds`] the exact integer bounds that follow from a
//! threshold. `encode` turns Arrow lists into a [`SetCollection`], `filter` proposes candidate
//! pairs, `scan_count` counts what all sets share, `bitmap` decides pairs by blocks of signatures and
//! `tiles` by those on a GPU, `large` counts what large sets share on a GPU, `indexed` joins by an
//! inverted index there, `offload` runs all of these there. `candidate_join` has joins that decide
//! candidates, by `verify` on the CPU and by `device_verifier` on a GPU (`device`). `nested_loop` compares
//! all pairs where there is no memory for anything else. `intersection` counts what large sets of integers
//! share. `join` has the figures that strategies share for their estimates (`statistics`, `sample`).
//! [`StoredTokens`] is the form of a side on disk. [`ShapeReader`] tells the size and a hash of each row's
//! set, by which rows are sent to the tasks of a cluster.

pub(crate) mod axis;
pub(crate) mod bitmap;
mod candidate_join;
mod candidate_source;
mod candidates;
pub(crate) mod collection;
mod copies;
pub(crate) mod costs;
pub(crate) mod device;
mod device_verifier;
pub(crate) mod encode;
pub(crate) mod family;
pub(crate) mod filter;
pub(crate) mod filter_verify;
pub(crate) mod indexed;
pub(crate) mod intersection;
pub(crate) mod itself;
mod join;
mod join_spec;
pub(crate) mod large;
pub(crate) mod matcher;
pub(crate) mod measure;
pub(crate) mod nested_loop;
pub(crate) mod offload;
mod probed;
pub(crate) mod rates;
mod runs;
mod sample;
pub(crate) mod scan_count;
mod shape;
pub(crate) mod statistics;
pub(crate) mod stored;
pub(crate) mod strategies;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod tiles;
pub(crate) mod verify;

pub(crate) use bitmap::BitmapBlocks;
pub use candidate_join::CandidateJoin;
pub use candidate_source::{CandidateFilter, CandidateSource, SourceProgress};
pub use candidates::{Candidate, CandidateChunk};
pub use collection::SetCollection;
pub(crate) use costs::Verification;
pub use device::DeviceJoin;
pub use encode::BuildEncoder;
pub(crate) use encode::stored_tokens::StoredTokens;
pub(crate) use encode::{ProbeEncoder, ProbeScratch};
pub use family::SetFamily;
pub(crate) use filter_verify::FilterVerify;
pub(crate) use indexed::IndexedJoin;
pub(crate) use itself::SelfMatches;
pub use join::SetJoin;
pub use join_spec::{JoinSpec, SetUnit};
pub use measure::{Bounds, Measure, Role};
pub(in crate::set) use nested_loop::NestedLoop;
pub(crate) use runs::{Run, Runs, SetId};
pub(crate) use scan_count::ScanCount;
pub(crate) use shape::ShapeReader;
pub(crate) use statistics::Statistics;
pub(crate) use stored::Unload;
pub(crate) use verify::{CpuVerifier, intersect};

pub use crate::engine::PrepareContext;
