// Hash-based intersection, HI (Pandey, Li, Buluc, Xu, Liu: "H-INDEX: hash-indexing for parallel triangle
// counting on GPUs", HPEC 2019): the values of the shorter run go to buckets of fixed capacity, whose
// sizes lie in shared memory; those of the longer one are looked for in their bucket. Values that find
// a bucket full wait for another round. IP-HI cuts the path of the runs for blocks first.
#pragma once

#include "published_paths.cuh"

// By all threads of a block. `room` has work.buckets * work.capacity words for the buckets, then
// twice as many as the shorter run has values.
__device__ __forceinline__ u32 hash_values(const PairsWork &work, const Run &a, const Run &b, u32 *room) {
    __shared__ u32 sizes[MAX_BUCKETS];
    __shared__ u32 waiting;
    const Run shorter = a.count <= b.count ? a : b;
    const Run longer = a.count <= b.count ? b : a;
    const u32 buckets = work.buckets;
    const u32 capacity = work.capacity;
    const u32 shift = static_cast<u32>(__clz(static_cast<int>(buckets))) + 1;
    u32 *const left = room + u64{buckets} * capacity;
    const u32 *values = shorter.values;
    u64 count = longer.count > 0 ? shorter.count : 0;
    u32 common = 0;
    for (u32 round = 0; count > 0; ++round) {
        __syncthreads();
        for (u32 i = threadIdx.x; i < buckets; i += blockDim.x) {
            sizes[i] = 0;
        }
        if (threadIdx.x == 0) {
            waiting = 0;
        }
        __syncthreads();
        u32 *const next = left + round % 2 * shorter.count;
        for (u64 i = threadIdx.x; i < count; i += blockDim.x) {
            const u32 value = values[i];
            const u32 bucket = value * 0x9e3779b1u >> shift;
            const u32 at = atomicAdd(&sizes[bucket], 1u);
            if (at < capacity) {
                room[u64{bucket} * capacity + at] = value;
            } else {
                next[atomicAdd(&waiting, 1u)] = value;
            }
        }
        __syncthreads();
        for (u64 i = threadIdx.x; i < longer.count; i += blockDim.x) {
            const u32 value = __ldg(&longer.values[i]);
            const u32 bucket = value * 0x9e3779b1u >> shift;
            const u32 size = min(sizes[bucket], capacity);
            const u32 *const of = room + u64{bucket} * capacity;
            for (u32 at = 0; at < size; ++at) {
                common += of[at] == value;
            }
        }
        __syncthreads();
        values = next;
        count = waiting;
    }
    return common;
}

// Parts are values of the shorter run; each looks through the whole of the longer one.
__device__ __forceinline__ void by_hashes(const PairsWork &work) {
    u32 *const room = work.room + blockIdx.x * work.room_words;
    for (u64 item = blockIdx.x; item < PairPart::items(work); item += gridDim.x) {
        const PairPart part(work, item);
        const bool is_short = part.a.count <= part.b.count;
        const Run shorter = is_short ? part.a : part.b;
        const u64 first = shorter.count * part.part / work.parts;
        const u64 end = shorter.count * (part.part + 1) / work.parts;
        const Run values(shorter.values + first, end - first);
        part.give(work, hash_values(work, values, is_short ? part.b : part.a, room));
    }
}

// Parts of the path, of which the shorter sides have at most `shared_values` values, with tables in
// shared memory.
__device__ __forceinline__ void by_paths_and_hashes(const PairsWork &work) {
    DYNAMIC_SHARED(room);
    // Both sides of a rectangle have as many values together.
    const u64 longest = 2 * ((work.room_words - u64{work.buckets} * work.capacity) / 2);
    for (u64 item = blockIdx.x; item < PairPart::items(work); item += gridDim.x) {
        const PairPart part(work, item);
        const u64 end = part.diagonal(work, part.part + 1);
        u32 common = 0;
        for (u64 from = part.diagonal(work, part.part); from < end; from += longest) {
            const Rectangle of = rectangle(part.a, part.b, from, min(end, from + longest));
            common += hash_values(work, of.a, of.b, room) + (threadIdx.x == 0 ? of.hidden : 0);
        }
        part.give(work, common);
    }
}
