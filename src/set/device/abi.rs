//! What the host and the kernels agree on. `kernels/abi.cuh` declares the same in CUDA C++.

use crate::set::SetId;

/// A set's number on the device or in a chunk.
pub(crate) type DeviceSet = u32;

/// Sets in CSR form, by device addresses.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Sets {
    pub tokens: u64,
    pub offsets: u64,
}

/// Candidates of one probe set within a chunk: those from `start` up to the next group's start. A
/// probe set with many of them has several groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Group {
    /// The probe set among the probe sets of the chunk.
    pub set: DeviceSet,
    /// Its name in matches.
    pub probe: SetId,
    /// The first candidate of the group in the chunk.
    pub start: u32,
    /// Narrow candidates: `required[table + n]` (wrapping) is the least overlap with a build set
    /// of `n` tokens with which the pair matches.
    pub table: u32,
}

/// A candidate of sets of at most [`NarrowCandidate::MAX_SIZE`] tokens; the required overlap is in
/// the table of its group. Others travel as [`Candidate`](crate::set::Candidate)s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NarrowCandidate {
    /// The build set.
    pub build: DeviceSet,
    /// `overlap | probe_at << 10 | build_at << 21`
    pub packed: u32,
}

impl NarrowCandidate {
    /// The most tokens of a set in a narrow candidate.
    pub const MAX_SIZE: u32 = 1023;
}

/// Matches that a kernel has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Found {
    /// Matches in all.
    pub matches: u64,
    /// Count form, in pairs of rows. Of matches of two sets: the sum of the products of their row
    /// counts.
    pub cross: u64,
    /// Of matches of a set with itself (self-joins only): the sum of the squares of its row count.
    pub squares: u64,
    /// The sum of that row count.
    pub rows: u64,
}

/// A chunk of candidates and where its matches go: the only argument of every verification kernel.
/// Addresses are device addresses, 0 where there is nothing.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Chunk {
    pub probe: Sets,
    pub build: Sets,
    /// `group_count + 1` groups; the last one only ends the candidates of the one before.
    pub groups: u64,
    /// Narrow candidates, or wide ones.
    pub candidates: u64,
    pub required: u64,
    /// Count form: the number of rows of each probe set (by [`Group::set`]) and build set; 0 where
    /// every set has one row.
    pub probe_rows: u64,
    pub build_rows: u64,
    /// Pairs form: room for as many matches as there are candidates.
    pub matches: u64,
    pub found: u64,
    pub group_count: u32,
    /// 1 where candidates are wide, 0 where they are narrow. The next three are flags as well.
    pub wide: u32,
    /// Whether a match needs its exact overlap.
    pub exact: u32,
    /// Whether one match for each probe set will do.
    pub first_only: u32,
    /// Whether a probe set equals the build set of the same number (a self-join).
    pub same: u32,
    /// Words of 4 bytes of dynamic shared memory.
    pub shared_words: u32,
}
