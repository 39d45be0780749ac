//! Verification on the CPU: the exact decision over candidates.

pub(crate) mod cpu;
pub(crate) mod intersect;

pub(crate) use cpu::CpuVerifier;
pub(crate) use intersect::intersect;
