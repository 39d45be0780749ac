// The number of common values of two runs of similar lengths: the path of their merge is cut into
// tiles of equal length (Green, McColl, Bader: "GPU merge path", ICS 2012). A block copies both sides
// of a tile into shared memory in whole, and its threads merge equal shares there. Nothing is written
// but a sum for each block.
#pragma once

#include "large_path.cuh"
#include "matrix.cuh"
#include "published_intersection_abi.cuh"

// Copies values to shared memory, which lies like them among 16 bytes. By all threads; the copies
// end with finish_copies.
template <class Key>
__device__ __forceinline__ void copy_keys(Key *to, const Key *from, u32 count) {
    constexpr u32 QUAD = 16 / sizeof(Key);
    const u32 behind = static_cast<u32>(reinterpret_cast<u64>(from) / sizeof(Key) % QUAD);
    const u32 head = min(count, (QUAD - behind) % QUAD);
    const u32 quads = (count - head) / QUAD;
    if (threadIdx.x < head) {
        to[threadIdx.x] = __ldg(&from[threadIdx.x]);
    }
    for (u32 i = threadIdx.x; i < quads; i += blockDim.x) {
        uint4 *const at = reinterpret_cast<uint4 *>(to + head + i * QUAD);
        const uint4 *const source = reinterpret_cast<const uint4 *>(from + head + i * QUAD);
#ifdef HAS_MATRIX_PRODUCTS
        copy_beside(at, source);
#else
        *at = *source;
#endif
    }
    const u32 done = head + quads * QUAD;
    if (threadIdx.x < count - done) {
        to[done + threadIdx.x] = __ldg(&from[done + threadIdx.x]);
    }
}

__device__ __forceinline__ void finish_copies() {
#ifdef HAS_MATRIX_PRODUCTS
    wait_for_copies();
#endif
}

// Both sides of a tile in shared memory: the values of its part of the path, and on each side the
// value behind, where there is one.
template <class Key>
struct MergeTile {
    const Key *a;
    const Key *b;
    u32 a_count;
    u32 b_count;
    u32 a_known;
    u32 b_known;

    // Merges `steps` values from a diagonal on, and counts the common values of which `a` has the
    // first run's value among them.
    template <u32 STEPS>
    __device__ __forceinline__ u32 merge(u32 diagonal) const {
        u32 i = cut_path(a, a_count, b, b_count, diagonal);
        u32 j = diagonal - i;
        Key x = a[i];
        Key y = b[j];
        u32 common = 0;
#pragma unroll
        for (u32 step = 0; step < STEPS; ++step) {
            const bool first = x <= y;
            common += x == y;
            i += first;
            j += !first;
            const Key next = *(first ? a + i : b + j);
            x = first ? next : x;
            y = first ? y : next;
        }
        return common;
    }

    // The same where a side may end.
    __device__ __forceinline__ u32 merge_to_end(u32 diagonal, u32 steps) const {
        u32 i = cut_path(a, a_count, b, b_count, diagonal);
        u32 j = diagonal - i;
        u32 common = 0;
        for (u32 step = 0; step < steps; ++step) {
            const bool both = i < a_known && j < b_known;
            const bool first = both ? a[i] <= b[j] : i < a_known;
            common += both && a[i] == b[j];
            i += first;
            j += !first;
        }
        return common;
    }
};

template <class Key, u32 THREADS, u32 EACH>
__device__ __forceinline__ void merge_runs(const RunPair &work) {
    constexpr u32 TILE = THREADS * EACH;
    constexpr u32 QUAD = 16 / sizeof(Key);
    __shared__ uint4 room[(TILE + 2) / QUAD + 4];
    __shared__ u64 cuts[2];
    Key *const keys = reinterpret_cast<Key *>(room);
    const Key *const a = static_cast<const Key *>(work.a);
    const Key *const b = static_cast<const Key *>(work.b);
    const u64 total = work.a_count + work.b_count;
    u64 common = 0;
    for (u64 first = u64{blockIdx.x} * TILE; first < total; first += u64{gridDim.x} * TILE) {
        const u64 end = min(total, first + TILE);
        // All threads have left the former tile.
        __syncthreads();
        if (warp_id() < 2) {
            const u64 cut = cut_path_by_warp(a, work.a_count, b, work.b_count, warp_id() == 0 ? first : end);
            if (lane_id() == 0) {
                cuts[warp_id()] = cut;
            }
        }
        __syncthreads();
        const u64 a_first = cuts[0];
        const u64 b_first = first - a_first;
        MergeTile<Key> tile;
        tile.a_count = static_cast<u32>(cuts[1] - a_first);
        tile.b_count = static_cast<u32>(end - first) - tile.a_count;
        tile.a_known = tile.a_count + (cuts[1] < work.a_count);
        tile.b_known = tile.b_count + (end - cuts[1] < work.b_count);
        Key *const a_room = keys + reinterpret_cast<u64>(a + a_first) / sizeof(Key) % QUAD;
        Key *const b_room = keys + (a_room - keys + tile.a_known + QUAD - 1) / QUAD * QUAD +
                            reinterpret_cast<u64>(b + b_first) / sizeof(Key) % QUAD;
        copy_keys(a_room, a + a_first, tile.a_known);
        copy_keys(b_room, b + b_first, tile.b_known);
        finish_copies();
        __syncthreads();
        tile.a = a_room;
        tile.b = b_room;
        const u32 diagonal = threadIdx.x * EACH;
        const u32 length = static_cast<u32>(end - first);
        if (length == TILE && tile.a_known > tile.a_count && tile.b_known > tile.b_count) {
            common += tile.template merge<EACH>(diagonal);
        } else if (diagonal < length) {
            common += tile.merge_to_end(diagonal, min(EACH, length - diagonal));
        }
    }
    const u64 sum = sum_of_block(common);
    if (threadIdx.x == 0 && sum > 0) {
        atomicAdd(work.common, sum);
    }
}
