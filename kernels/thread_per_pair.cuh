// Layout B: a block owns a probe set, whose tokens lie in shared memory where they fit; its threads
// share out the candidates and merge one each. For small sets.
#pragma once

#include "merge.cuh"
#include "sink.cuh"

// Verifies the group's candidates; `probe` are its tokens, in shared or global memory.
template <class Sink>
__device__ __forceinline__ void merge_candidates(const Chunk &chunk, const ProbeGroup &group, const u32 *probe,
                                                 const Settled &settled, Sink &sink) {
    const u32 count = group.end - group.start;
    for (u64 base = warp_id() * WARP; base < count; base += blockDim.x) {
        if (settled.get()) {
            return;
        }
        const u64 number = base + lane_id();
        bool matched = false;
        Pair pair;
        if (number < count) {
            pair = Pair(chunk, group, group.start + static_cast<u32>(number));
            if (pair.is_open(chunk.exact)) {
                merge(pair, probe, group.size, chunk.exact);
            }
            matched = pair.matches();
        }
        // Together again, whatever their merges took.
        __syncwarp();
        sink.push(matched, group, pair);
        settled.add(matched);
    }
}

template <class Sink>
__device__ __forceinline__ void thread_per_pair(const Chunk &chunk) {
    DYNAMIC_SHARED(shared);
    __shared__ u32 flag;
    const Settled settled(chunk, &flag);
    Sink sink(chunk);
    for (u64 number = blockIdx.x; number < chunk.group_count; number += gridDim.x) {
        const ProbeGroup group(chunk, number);
        // All threads have left the former group.
        __syncthreads();
        if (threadIdx.x == 0) {
            flag = 0;
        }
        const bool fits = group.size <= chunk.shared_words;
        if (fits) {
#pragma unroll 1
            for (u32 i = threadIdx.x; i < group.size; i += blockDim.x) {
                shared[i] = __ldg(&group.tokens[i]);
            }
        }
        __syncthreads();
        if (fits) {
            merge_candidates(chunk, group, shared, settled, sink);
        } else {
            merge_candidates(chunk, group, group.tokens, settled, sink);
        }
    }
    sink.finish();
}
