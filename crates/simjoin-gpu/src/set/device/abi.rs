//! The structures of the host and the kernels. `kernels/abi.cuh` declares the same in CUDA C++.

use simjoin_core::engine::Match;
use simjoin_core::set::Candidate;

use crate::runtime::Pod;

/// A set's number on the device or in a chunk.
pub type DeviceSet = u32;

/// Sets in CSR form, by device addresses.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Sets {
    pub tokens: u64,
    pub offsets: u64,
}

impl Sets {
    /// These sets, the first of which gets number `first`.
    pub fn numbered_from(self, first: DeviceSet) -> Self {
        let before = u64::from(first) * size_of::<u64>() as u64;
        Self { offsets: self.offsets.wrapping_sub(before), ..self }
    }
}

/// Matches that a kernel has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Found {
    /// Matches in all.
    pub matches: u64,
    /// Count form: the sum of the products of the row counts of two matching sets.
    pub cross: u64,
    /// Count form: the sum of the squares of the row counts of sets that match themselves
    /// (self-joins only).
    pub squares: u64,
    /// Count form: the sum of the row counts of the same sets.
    pub rows: u64,
}

// SAFETY: a `repr(C)` struct of `u64`s only.
unsafe impl Pod for Found {}
// SAFETY: a `repr(C)` struct of `u32`s only.
unsafe impl Pod for Candidate {}
// SAFETY: as above.
unsafe impl Pod for Match {}
