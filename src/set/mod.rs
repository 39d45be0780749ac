//! Sets of tokens: the first family.
//!
//! [`Measure`] defines the similarities, [`Bounds`] the exact integer bounds that follow from a
//! threshold. `encode` turns Arrow lists into a [`SetCollection`], `filter` proposes candidate
//! pairs, `bitmap` decides pairs by blocks of signatures, `verify` decides candidates on the CPU
//! and `device` on a GPU. `statistics` and `costs` estimate what each way takes. [`StoredRows`]
//! are the rows of a side that is kept on disk, [`ShapeReader`] tells the size and a hash of each
//! row's set, which is all that sending rows to the tasks of a cluster takes.

pub(crate) mod axis;
pub mod bitmap;
pub(crate) mod collection;
pub(crate) mod costs;
pub mod device;
pub(crate) mod encode;
pub(crate) mod family;
pub mod filter;
pub(crate) mod filter_verify;
pub(crate) mod join_spec;
pub(crate) mod matcher;
pub(crate) mod measure;
pub(crate) mod runs;
pub(crate) mod shape;
pub(crate) mod statistics;
pub(crate) mod stored;
pub(crate) mod strategies;
#[cfg(test)]
mod tests;
pub mod verify;

pub use bitmap::BitmapBlocks;
pub use collection::{SetCollection, SetId};
pub use costs::Verification;
pub use device::{DeviceJoin, DeviceVerifier};
pub use encode::{BuildEncoder, ProbeEncoder, ProbeScratch};
pub use family::SetFamily;
pub use filter_verify::{CandidateSource, FilterVerify, SourceProgress, Verified, Verifier};
pub use join_spec::{JoinSpec, JoinStrategy, PrepareContext, SetUnit};
pub use measure::{Bounds, MAX_SET_SIZE, Measure, Role};
pub use runs::Run;
pub use shape::ShapeReader;
pub use statistics::Statistics;
pub use stored::{StoredTokens, Unload};
pub use verify::{Candidate, CandidateChunk, CpuVerifier, intersect};
