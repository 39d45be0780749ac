// The number of common values of a short and a long run: a block searches a stretch of the short run
// in the part of the long one that it spans, the top of whose tree lies in shared memory.
#pragma once

#include "large_path.cuh"
#include "published_intersection_abi.cuh"

// Part of a run, with evenly spaced values of it in shared memory.
template <class Key, u32 TOP>
struct SampledRun {
    const Key *run;
    const Key *top;
    u64 start;
    u64 end;

    // By all threads of a block, of which all have left the former samples.
    __device__ __forceinline__ SampledRun(const Key *run, u64 start, u64 end, Key *top)
        : run(run), top(top), start(start), end(end) {
        for (u32 i = threadIdx.x; i < TOP && end > start; i += blockDim.x) {
            top[i] = __ldg(&run[place(i)]);
        }
        __syncthreads();
    }

    __device__ __forceinline__ bool has(Key key) const {
        if (start >= end) {
            return false;
        }
        // Samples before the key.
        const u32 before = first_from(top, 0u, TOP, key);
        const u64 low = before == 0 ? start : place(before - 1) + 1;
        const u64 high = before == TOP ? end : place(before) + 1;
        const u64 found = first_from(run, low, high, key);
        return found < end && __ldg(&run[found]) == key;
    }

private:
    __device__ __forceinline__ u64 place(u32 sample) const { return start + (end - start) * sample / TOP; }
};

// `a` is the short run.
template <class Key, u32 THREADS, u32 EACH, u32 TOP>
__device__ __forceinline__ void search_runs(const RunPair &work) {
    constexpr u32 TILE = THREADS * EACH;
    __shared__ Key top[TOP];
    __shared__ u64 spanned[2];
    const Key *const a = static_cast<const Key *>(work.a);
    const Key *const b = static_cast<const Key *>(work.b);
    u64 common = 0;
    for (u64 first = u64{blockIdx.x} * TILE; first < work.a_count; first += u64{gridDim.x} * TILE) {
        const u64 end = min(work.a_count, first + TILE);
        // All threads have left the former tile.
        __syncthreads();
        if (warp_id() < 2) {
            const Key limit = __ldg(&a[warp_id() == 0 ? first : end - 1]);
            const u64 place = search_by_warp(0, work.b_count, [&](u64 place) {
                const Key key = __ldg(&b[place]);
                return warp_id() == 0 ? key < limit : key <= limit;
            });
            if (lane_id() == 0) {
                spanned[warp_id()] = place;
            }
        }
        __syncthreads();
        const SampledRun<Key, TOP> part(b, spanned[0], spanned[1], top);
        for (u64 i = first + threadIdx.x; i < end; i += THREADS) {
            common += part.has(__ldg(&a[i]));
        }
    }
    const u64 sum = sum_of_block(common);
    if (threadIdx.x == 0 && sum > 0) {
        atomicAdd(work.common, sum);
    }
}
