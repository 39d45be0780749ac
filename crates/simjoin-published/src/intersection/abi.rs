//! The structures of the host and the kernels of the techniques. `kernels/published_intersection_abi.cuh`
//! declares the same in CUDA C++; see there for what the fields mean. Addresses are device addresses, 0
//! where there is nothing.

use simjoin_gpu::set::device::abi::Sets;

/// Two runs.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct RunPair {
    pub a: u64,
    pub b: u64,
    pub a_count: u64,
    pub b_count: u64,
    pub common: u64,
}

/// Sets whose pairs are intersected by a published technique.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct PairsWork {
    pub sets: Sets,
    pub overlaps: u64,
    pub room: u64,
    pub counts: u64,
    pub offsets: u64,
    pub works: u64,
    pub sums: u64,
    pub first_pair: u64,
    pub end_pair: u64,
    pub room_words: u64,
    pub word_count: u64,
    pub first_value: u64,
    pub set_count: u32,
    pub parts: u32,
    pub buckets: u32,
    pub capacity: u32,
    pub current: u32,
    pub universe: u32,
}

const _: () = assert!(size_of::<RunPair>() == 40 && size_of::<PairsWork>() == 128);
