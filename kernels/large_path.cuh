// Searches in ascending values, and where the merge of two runs is cut. Of equal values the first run's
// comes first: a cut never has a choice, and a common value belongs to the part that has the first run's.
#pragma once

#include "warp.cuh"

// How many of the first `diagonal` values of the merge are of `a`. By one thread.
template <class Key, class Place>
__device__ __forceinline__ Place cut_path(const Key *a, Place a_count, const Key *b, Place b_count, Place diagonal) {
    Place low = diagonal > b_count ? diagonal - b_count : 0;
    Place high = min(diagonal, a_count);
    while (low < high) {
        const Place middle = low + (high - low) / 2;
        if (a[middle] <= b[diagonal - 1 - middle]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// The first place from `low` on, and before `high`, of a value from `key` on.
template <class Key, class Place>
__device__ __forceinline__ Place first_from(const Key *keys, Place low, Place high, Key key) {
    while (low < high) {
        const Place middle = low + (high - low) / 2;
        if (keys[middle] < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// The first place from `low` on, and before `high`, at which `before` does not hold; it holds at all
// places in front. By all lanes of a warp, with places and results alike.
template <class Before>
__device__ __forceinline__ u64 search_by_warp(u64 low, u64 high, Before before) {
    while (low < high) {
        const u64 size = high - low;
        const u64 step = size / WARP + 1;
        // Ends of equal parts; those behind the last place count as not before.
        const u64 place = low + step * (lane_id() + 1) - 1;
        const bool holds = place < high && before(place);
        const u32 parts = static_cast<u32>(__popc(__ballot_sync(ALL_LANES, holds)));
        const u64 start = low + step * parts;
        high = min(high, start + step - 1);
        low = min(start, high);
    }
    return low;
}

// The same as cut_path, by all lanes of a warp.
template <class Key>
__device__ __forceinline__ u64 cut_path_by_warp(const Key *a, u64 a_count, const Key *b, u64 b_count, u64 diagonal) {
    const u64 low = diagonal > b_count ? diagonal - b_count : 0;
    return search_by_warp(low, min(diagonal, a_count),
                          [&](u64 place) { return __ldg(&a[place]) <= __ldg(&b[diagonal - 1 - place]); });
}

// The sum of what all threads of a block have, in thread 0. By all threads.
template <class T>
__device__ __forceinline__ T sum_of_block(T value) {
    __shared__ T sums[MAX_WARPS];
    const T sum = sum_of_lanes<WARP>(value);
    __syncthreads();
    if (lane_id() == 0) {
        sums[warp_id()] = sum;
    }
    __syncthreads();
    T total = 0;
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (u32 warp = 0; warp < warps(); ++warp) {
            total += sums[warp];
        }
    }
    return total;
}
