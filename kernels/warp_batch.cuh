// Candidates taken 32 at a time, one a lane: all their loads, which go to random places, are under
// way together, and those that sizes alone decide cost nothing more.
#pragma once

#include "pair.cuh"
#include "warp.cuh"

struct WarpBatch {
    // The lane's own candidate.
    Pair pair;
    bool present;
    // The lanes whose candidates are open.
    u32 open;

    // Takes candidates from `number` on. By all lanes of a warp.
    __device__ __forceinline__ WarpBatch(const Chunk &chunk, const ProbeGroup &group, u64 number) {
        number += lane_id();
        present = number < group.end;
        bool is_open = false;
        if (present) {
            pair = Pair(chunk, group, static_cast<u32>(number));
            is_open = pair.is_open(chunk.exact);
        }
        open = __ballot_sync(ALL_LANES, is_open);
    }

    __device__ __forceinline__ bool matches() const { return present && pair.matches(); }
};
