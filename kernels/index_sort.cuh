// Radix sort: of a tile by a block, and, tile by tile, of all postings.
#pragma once

#include "warp.cuh"

constexpr u32 DIGIT_BITS = 4;
constexpr u32 DIGITS = 1u << DIGIT_BITS;

// The sum over this lane and those below. By all lanes of a warp.
__device__ __forceinline__ u32 sum_to_lane(u32 value) {
#pragma unroll
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        const u32 below = __shfl_up_sync(ALL_LANES, value, distance);
        value += lane_id() >= distance ? below : 0;
    }
    return value;
}

// Turns `count` values of shared memory into the sums of those before; gives the sum of all. By the
// lanes of one warp.
__device__ __forceinline__ u32 sums_before(u32 *values, u32 count) {
    u32 sum = 0;
#pragma unroll 1
    for (u32 base = 0; base < count; base += WARP) {
        const u32 at = base + lane_id();
        const u32 value = at < count ? values[at] : 0;
        const u32 to_lane = sum_to_lane(value);
        if (at < count) {
            values[at] = sum + to_lane - value;
        }
        sum += __shfl_sync(ALL_LANES, to_lane, WARP - 1);
    }
    return sum;
}

// The places of a tile's items in the order of their digits, and of their numbers within a digit.
// Item i * blockDim.x + threadIdx.x has digits[i]. `counts`: DIGITS * ITEMS * warps() words of shared
// memory; behind the call counts[digit * ITEMS * warps()] is the first place of a digit. By all
// threads of a block.
template <u32 ITEMS>
__device__ __forceinline__ void places_by_digit(const u32 (&digits)[ITEMS], u32 (&places)[ITEMS], u32 *counts) {
    const u32 strips = ITEMS * warps();
    __syncthreads();
    for (u32 i = threadIdx.x; i < DIGITS * strips; i += blockDim.x) {
        counts[i] = 0;
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        u32 alike = ALL_LANES;
#pragma unroll
        for (u32 bit = 0; bit < DIGIT_BITS; ++bit) {
            const bool is_set = digits[i] >> bit & 1;
            const u32 set = __ballot_sync(ALL_LANES, is_set);
            alike &= is_set ? set : ~set;
        }
        places[i] = static_cast<u32>(__popc(alike & lanes_below()));
        if (places[i] == 0) {
            counts[digits[i] * strips + i * warps() + warp_id()] = static_cast<u32>(__popc(alike));
        }
    }
    __syncthreads();
    if (warp_id() == 0) {
        sums_before(counts, DIGITS * strips);
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        places[i] += counts[digits[i] * strips + i * warps() + warp_id()];
    }
}

// The places of a tile's marked items, in the order of their numbers; gives how many there are.
// `counts`: ITEMS * warps() + 1 words of shared memory. By all threads of a block.
template <u32 ITEMS>
__device__ __forceinline__ u32 places_of_marked(const bool (&marked)[ITEMS], u32 (&places)[ITEMS], u32 *counts) {
    const u32 strips = ITEMS * warps();
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        const u32 mask = __ballot_sync(ALL_LANES, marked[i]);
        places[i] = static_cast<u32>(__popc(mask & lanes_below()));
        if (lane_id() == 0) {
            counts[i * warps() + warp_id()] = static_cast<u32>(__popc(mask));
        }
    }
    __syncthreads();
    if (warp_id() == 0) {
        const u32 sum = sums_before(counts, strips);
        if (lane_id() == 0) {
            counts[strips] = sum;
        }
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        places[i] += counts[i * warps() + warp_id()];
    }
    return counts[strips];
}

// Sorts the keys of a tile and their values by their lowest `bits` bits; equal keys stay in their
// order. `keys`, `values`: two tiles each, the second one to work with; gives the number of the tile
// with the result, 0 or 1. By all threads of a block.
template <u32 ITEMS>
__device__ __forceinline__ u32 sort_tile(u32 *keys, u32 *values, u32 count, u32 bits, u32 *counts) {
    const u32 tile = ITEMS * blockDim.x;
    u32 turn = 0;
#pragma unroll 1
    for (u32 shift = 0; shift < bits; shift += DIGIT_BITS) {
        const u32 from = turn * tile;
        u32 digits[ITEMS];
        u32 places[ITEMS];
#pragma unroll
        for (u32 i = 0; i < ITEMS; ++i) {
            const u32 at = i * blockDim.x + threadIdx.x;
            // What is beyond the end stays there.
            digits[i] = at < count ? keys[from + at] >> shift & (DIGITS - 1) : DIGITS - 1;
        }
        places_by_digit(digits, places, counts);
        turn ^= 1;
#pragma unroll
        for (u32 i = 0; i < ITEMS; ++i) {
            const u32 at = i * blockDim.x + threadIdx.x;
            if (at < count) {
                keys[turn * tile + places[i]] = keys[from + at];
                values[turn * tile + places[i]] = values[from + at];
            }
        }
        __syncthreads();
    }
    return turn;
}
