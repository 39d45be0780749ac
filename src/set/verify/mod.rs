//! Verification on the CPU: the exact decision over candidates.

pub(crate) mod candidates;
pub(crate) mod cpu;
pub(crate) mod intersect;
mod source;

pub use candidates::{Candidate, CandidateChunk};
pub(crate) use cpu::CpuVerifier;
pub(crate) use intersect::intersect;
pub use source::{CandidateFilter, CandidateSource, SourceProgress};
