//! Sets of tokens: the first family.
//!
//! [`Measure`] defines the similarities, [`Bounds`] the exact integer bounds that follow from a
//! threshold. `encode` turns Arrow lists into a [`SetCollection`], `filter` proposes candidate
//! pairs, `bitmap` decides pairs by blocks of signatures, `verify` decides candidates on the CPU
//! and `device` on a GPU. `statistics` and `costs` estimate what each way takes. [`StoredRows`]
//! are the rows of a side that is kept on disk, [`ShapeReader`] tells the size and a hash of each
//! row's set, which is all that sending rows to the tasks of a cluster takes.

pub mod bitmap;
pub(crate) mod collection;
pub(crate) mod costs;
pub mod device;
pub(crate) mod encode;
pub mod filter;
pub(crate) mod filter_verify;
pub(crate) mod measure;
pub(crate) mod runs;
pub(crate) mod shape;
pub(crate) mod statistics;
pub(crate) mod stored;
#[cfg(test)]
mod tests;
pub(crate) mod value_set;
pub mod verify;

pub use bitmap::BitmapBlocks;
pub use collection::{SetCollection, SetId};
pub use costs::Verification;
pub use device::{DeviceJoin, DeviceRequest, DeviceVerifier};
pub(crate) use encode::with_byte_tokens;
pub use encode::{
    BuildEncoder, Dictionary, EncodeInput, FinishContext, IntegerToken, Lists, ProbeEncoder,
    ProbeScratch, TokenKind, TokenOrder, Tokens, list_element_type,
};
pub use filter_verify::{
    CandidateSource, FilterVerify, FilterVerifyCursor, SourceProgress, Verified, Verifier,
};
pub use measure::{Bounds, MAX_SET_SIZE, Measure, Role};
pub use runs::{KeyId, Run, Runs};
pub use shape::{RowShape, ShapeReader};
pub use statistics::Statistics;
pub use stored::{StoredRows, StoredTokens, Unload};
pub use value_set::ValueSet;
pub use verify::{Candidate, CandidateChunk, CandidateGroup, CpuVerifier, intersect};
