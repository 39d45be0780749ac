//! Verification on the CPU: the exact decision over candidates.

pub mod cpu;
pub mod intersect;

pub(crate) use cpu::CpuVerifier;
pub use intersect::intersect;
