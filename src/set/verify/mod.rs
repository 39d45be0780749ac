//! Verification on the CPU: the exact decision over candidates.

pub(crate) mod candidates;
pub(crate) mod cpu;
mod halves;
pub(crate) mod intersect;

pub use candidates::{Candidate, CandidateChunk};
pub use cpu::CpuVerifier;
pub use halves::{CandidateSource, SourceProgress, Verified, Verifier};
pub(crate) use intersect::intersect;
