//! Verification on the CPU: the exact decision over candidates.

pub(crate) mod candidates;
pub(crate) mod cpu;
pub(crate) mod intersect;

pub use candidates::{Candidate, CandidateChunk, CandidateGroup};
pub use cpu::CpuVerifier;
pub use intersect::intersect;
