// Layout A: a thread owns a probe set and verifies all of its candidates by merging. For tiny sets
// and short groups (Bellas, Gounaris: "An empirical evaluation of exact set similarity join
// techniques using GPUs", Information Systems 2020).
#pragma once

#include "merge.cuh"
#include "sink.cuh"

template <class Sink>
__device__ __forceinline__ void thread_per_group(const Chunk &chunk) {
    Sink sink(chunk);
    const u64 threads = u64{gridDim.x} * blockDim.x;
    const u64 first = u64{blockIdx.x} * blockDim.x + warp_id() * WARP;
    // The lanes of a warp go from candidate to candidate in step, so that they append together.
    for (u64 base = first; base < chunk.group_count; base += threads) {
        // Lanes behind the last group hold it too, and no candidate.
        const u64 number = base + lane_id();
        const bool present = number < chunk.group_count;
        const ProbeGroup group(chunk, present ? number : chunk.group_count - 1);
        u32 next = present ? group.start : group.end;
        while (__any_sync(ALL_LANES, next < group.end)) {
            bool matched = false;
            Pair pair;
            if (next < group.end) {
                pair = Pair(chunk, group, next);
                if (pair.is_open(chunk.exact)) {
                    merge(pair, group.tokens, group.size, chunk.exact);
                }
                matched = pair.matches();
                next = matched && chunk.first_only ? group.end : next + 1;
            }
            // Together again, whatever their merges took.
            __syncwarp();
            sink.push(matched, group, pair);
        }
    }
    sink.finish();
}
