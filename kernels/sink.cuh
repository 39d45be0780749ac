// Where matches go. Every layout is written once, over one of two sinks:
//
//     push(matched, group, pair)   called by all lanes of a warp, with a pair each
//     finish()                     called once by all threads of a block, at the end
#pragma once

#include "abi.cuh"
#include "pair.cuh"
#include "warp.cuh"

// Appends matches: a warp reserves room for all of its own with one atomic.
struct PairsSink {
    const Chunk &chunk;

    __device__ __forceinline__ explicit PairsSink(const Chunk &chunk) : chunk(chunk) {}

    __device__ __forceinline__ void push(bool matched, const ProbeGroup &group, const Pair &pair) {
        const u32 mask = __ballot_sync(ALL_LANES, matched);
        if (mask == 0) {
            return;
        }
        u64 place = 0;
        if (lane_id() == 0) {
            place = atomicAdd(&chunk.found->matches, static_cast<u64>(__popc(mask)));
        }
        place = __shfl_sync(ALL_LANES, place, 0);
        if (matched) {
            place += static_cast<u32>(__popc(mask & lanes_below()));
            chunk.matches[place] = Match{group.name, pair.build, pair.overlap};
        }
    }

    __device__ __forceinline__ void finish() {}
};

// Adds up the pairs of rows behind matches: in registers, at the end by shuffles and shared memory,
// then with one atomic a block for each counter.
struct CountSink {
    static constexpr u32 COUNTERS = sizeof(Found) / sizeof(u64);

    const Chunk &chunk;
    u64 matches = 0;
    u64 cross = 0;
    u64 squares = 0;
    u64 rows = 0;

    __device__ __forceinline__ explicit CountSink(const Chunk &chunk) : chunk(chunk) {}

    __device__ __forceinline__ void push(bool matched, const ProbeGroup &group, const Pair &pair) {
        if (!matched) {
            return;
        }
        const u64 probe_rows = chunk.probe_rows ? __ldg(&chunk.probe_rows[group.set]) : 1;
        const u64 build_rows = chunk.build_rows ? __ldg(&chunk.build_rows[pair.build]) : 1;
        matches += 1;
        if (chunk.same && group.set == pair.build) {
            squares += build_rows * build_rows;
            rows += build_rows;
        } else {
            cross += probe_rows * build_rows;
        }
    }

    __device__ __forceinline__ void finish() {
        __shared__ u64 sums[COUNTERS][MAX_WARPS];
        const u64 counters[COUNTERS] = {matches, cross, squares, rows};
#pragma unroll
        for (u32 counter = 0; counter < COUNTERS; ++counter) {
            const u64 sum = sum_of_lanes<WARP>(counters[counter]);
            if (lane_id() == 0) {
                sums[counter][warp_id()] = sum;
            }
        }
        __syncthreads();
        if (threadIdx.x < COUNTERS) {
            u64 sum = 0;
#pragma unroll 1
            for (u32 warp = 0; warp < warps(); ++warp) {
                sum += sums[threadIdx.x][warp];
            }
            if (sum > 0) {
                // The totals are in the same order.
                atomicAdd(&chunk.found->matches + threadIdx.x, sum);
            }
        }
    }
};

// Whether a group needs no further match, where one will do: known to all warps of the block. The
// flag lies in shared memory and is only touched by atomics, as warps look whenever they come by.
struct Settled {
    u32 *flag;
    bool wanted;

    __device__ __forceinline__ Settled(const Chunk &chunk, u32 *flag) : flag(flag), wanted(chunk.first_only) {}

    // By all lanes of a warp.
    __device__ __forceinline__ bool get() const {
        if (!wanted) {
            return false;
        }
        u32 set = 0;
        if (lane_id() == 0) {
            set = atomicAdd(flag, 0u);
        }
        return __shfl_sync(ALL_LANES, set, 0) != 0;
    }

    // By all lanes of a warp.
    __device__ __forceinline__ void add(bool matched) const {
        if (wanted && __any_sync(ALL_LANES, matched) && lane_id() == 0) {
            atomicAdd(flag, 1u);
        }
    }
};
