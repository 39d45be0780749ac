//! Verification: the exact decision over candidates.

mod cpu;

pub use cpu::CpuVerifier;
