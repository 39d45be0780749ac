// How kernels give matches: appended, or counted in pairs of rows.
#pragma once

#include "abi.cuh"
#include "warp.cuh"

// Appends the matches of a warp, one a lane: one atomic reserves room for all of them. By all lanes.
__device__ __forceinline__ void append(Found &found, Match *matches, bool matched, const Match &match) {
    const u32 mask = __ballot_sync(ALL_LANES, matched);
    if (mask == 0) {
        return;
    }
    u64 place = 0;
    if (lane_id() == 0) {
        place = atomicAdd(&found.matches, static_cast<u64>(__popc(mask)));
    }
    place = __shfl_sync(ALL_LANES, place, 0);
    if (matched) {
        matches[place + static_cast<u32>(__popc(mask & lanes_below()))] = match;
    }
}

// What a thread has counted, as Found.
struct Counters {
    static constexpr u32 COUNT = sizeof(Found) / sizeof(u64);

    u64 matches = 0;
    u64 cross = 0;
    u64 squares = 0;
    u64 rows = 0;

    // Adds the counters of a block to the totals: by shuffles and shared memory, then with one atomic
    // for each. By all threads of a block, once.
    __device__ __forceinline__ void add_to(Found &found) const {
        __shared__ u64 sums[COUNT][MAX_WARPS];
        const u64 counters[COUNT] = {matches, cross, squares, rows};
#pragma unroll
        for (u32 counter = 0; counter < COUNT; ++counter) {
            const u64 sum = sum_of_lanes<WARP>(counters[counter]);
            if (lane_id() == 0) {
                sums[counter][warp_id()] = sum;
            }
        }
        __syncthreads();
        if (threadIdx.x < COUNT) {
            u64 sum = 0;
#pragma unroll 1
            for (u32 warp = 0; warp < warps(); ++warp) {
                sum += sums[threadIdx.x][warp];
            }
            if (sum > 0) {
                // The totals are in the same order.
                atomicAdd(&found.matches + threadIdx.x, sum);
            }
        }
    }
};

// The matches of a work that filters and decides, given as pairs.
template <class Work>
struct GivenPairs {
    const Work &work;

    __device__ __forceinline__ explicit GivenPairs(const Work &work) : work(work) {}

    // By all lanes of a warp, with a pair each.
    __device__ __forceinline__ void push(bool matches, u32 row, u32 column, u32 overlap) {
        append(work.tally->found, work.matches, matches, work.match_of(row, column, overlap));
    }

    __device__ __forceinline__ void finish() {}
};

// The same counted, in pairs of rows of the join. A set does not meet itself.
template <class Work>
struct CountedPairs {
    const Work &work;
    Counters counters;

    __device__ __forceinline__ explicit CountedPairs(const Work &work) : work(work) {}

    __device__ __forceinline__ void push(bool matches, u32 row, u32 column, u32) {
        if (matches) {
            const u64 probe_rows = work.probe_rows ? __ldg(&work.probe_rows[row]) : 1;
            const u64 build_rows = work.build_rows ? __ldg(&work.build_rows[column]) : 1;
            counters.matches += 1;
            counters.cross += probe_rows * build_rows;
        }
    }

    // By all threads of a block, once.
    __device__ __forceinline__ void finish() { counters.add_to(work.tally->found); }
};
