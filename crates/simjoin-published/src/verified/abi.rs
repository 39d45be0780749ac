//! The structures of the host and the kernels that verify. `kernels/abi.cuh` declares the same in CUDA C++.

use simjoin_core::set::runs::SetId;
use simjoin_gpu::set::device::abi::{DeviceSet, Sets};

/// Candidates of one probe set within a chunk: those from `start` up to the next group's start. A
/// probe set with many of them has several groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Group {
    /// The probe set among the probe sets of the chunk.
    pub set: DeviceSet,
    /// The number of the probe set in matches.
    pub probe: SetId,
    /// The first candidate of the group in the chunk.
    pub start: u32,
    /// Narrow candidates: `required[table + n]` (wrapping) is the least overlap with a build set
    /// of `n` tokens with which the pair matches.
    pub table: u32,
}

/// A candidate of sets of at most [`NarrowCandidate::MAX_SIZE`] tokens; the required overlap is in
/// the table of its group. Others travel as [`Candidate`](simjoin_core::set::Candidate)s.
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

/// A chunk of candidates and where its matches go: the only argument of every verification kernel.
/// Addresses are device addresses, 0 where there is nothing.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Chunk {
    pub probe: Sets,
    pub build: Sets,
    /// `group_count + 1` groups; the last group only marks the end of the candidates before it.
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
    /// 1 where candidates are wide, 0 where they are narrow.
    pub wide: u32,
    /// 1 where a match needs its exact overlap, else 0.
    pub exact: u32,
    /// 1 where one match for each probe set suffices, else 0.
    pub first_only: u32,
    /// 1 where a probe set equals the build set of the same number (a self-join), else 0.
    pub same: u32,
    /// Words of 4 bytes of dynamic shared memory.
    pub shared_words: u32,
}
