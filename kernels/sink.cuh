// Where matches go. Every layout is written once, over one of two sinks:
//
//     push(matched, group, pair)   called by all lanes of a warp, with a pair each
//     finish()                     called once by all threads of a block, at the end
#pragma once

#include "abi.cuh"
#include "answers.cuh"
#include "pair.cuh"
#include "warp.cuh"

// Appends matches.
struct PairsSink {
    const Chunk &chunk;

    __device__ __forceinline__ explicit PairsSink(const Chunk &chunk) : chunk(chunk) {}

    __device__ __forceinline__ void push(bool matched, const ProbeGroup &group, const Pair &pair) {
        append(*chunk.found, chunk.matches, matched, Match{group.name, pair.build, pair.overlap});
    }

    __device__ __forceinline__ void finish() {}
};

// Adds up the pairs of rows behind matches.
struct CountSink {
    const Chunk &chunk;
    Counters counters;

    __device__ __forceinline__ explicit CountSink(const Chunk &chunk) : chunk(chunk) {}

    __device__ __forceinline__ void push(bool matched, const ProbeGroup &group, const Pair &pair) {
        if (!matched) {
            return;
        }
        const u64 probe_rows = chunk.probe_rows ? __ldg(&chunk.probe_rows[group.set]) : 1;
        const u64 build_rows = chunk.build_rows ? __ldg(&chunk.build_rows[pair.build]) : 1;
        counters.matches += 1;
        if (chunk.same && group.set == pair.build) {
            counters.squares += build_rows * build_rows;
            counters.rows += build_rows;
        } else {
            counters.cross += probe_rows * build_rows;
        }
    }

    __device__ __forceinline__ void finish() { counters.add_to(*chunk.found); }
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
