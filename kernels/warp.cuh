// Threads and what those of a warp or block find out together.
#pragma once

#include "types.cuh"

constexpr u32 WARP = 32;
constexpr u32 ALL_LANES = 0xffffffffu;
// The largest block that any device runs, in warps.
constexpr u32 MAX_WARPS = 32;

__device__ __forceinline__ u32 lane_id() { return threadIdx.x % WARP; }

__device__ __forceinline__ u32 warp_id() { return threadIdx.x / WARP; }

__device__ __forceinline__ u32 warps() { return blockDim.x / WARP; }

__device__ __forceinline__ u32 lanes_below() { return (1u << lane_id()) - 1; }

// The sum over each aligned run of LANES lanes, in all of its lanes. The whole warp calls it.
template <u32 LANES, class T>
__device__ __forceinline__ T sum_of_lanes(T value) {
#pragma unroll
    for (u32 distance = LANES / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(ALL_LANES, value, static_cast<int>(distance));
    }
    return value;
}

// The position of the n-th (from 0) bit of those set in `mask`, which has more than n; otherwise
// some position.
__device__ __forceinline__ u32 nth_bit(u32 mask, u32 n) {
    u32 position = 0;
#pragma unroll
    for (u32 width = WARP / 2; width > 0; width /= 2) {
        const u32 below = static_cast<u32>(__popc(mask & ((1u << width) - 1)));
        if (n >= below) {
            n -= below;
            mask >>= width;
            position += width;
        }
    }
    return position;
}
