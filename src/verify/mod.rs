//! Verification: the exact decision over candidates.

mod cpu;
mod intersect;

pub use cpu::CpuVerifier;
pub use intersect::intersect;
