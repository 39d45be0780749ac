// Intersect path, IP (Fox, Green, Gabert, An, Bader: "Fast and adaptive list intersections on the GPU",
// HPEC 2018): equidistant diagonals cut the path of two runs for blocks, and that of a block for
// threads, which merge serially. A cut between the two steps of a common value hides it from both
// sides; the one behind counts it.
#pragma once

#include "published_pairs.cuh"

// A rectangle that the path of two runs goes through.
struct Rectangle {
    Run a;
    Run b;
    // The common value that the cut in front hides.
    u32 hidden;
};

// The rectangle between two diagonals. By all threads of a block.
__device__ __forceinline__ Rectangle rectangle(const Run &a, const Run &b, u64 from, u64 to) {
    __shared__ u64 cuts[2];
    __syncthreads();
    if (threadIdx.x < 2) {
        cuts[threadIdx.x] = cut_path(a.values, a.count, b.values, b.count, threadIdx.x == 0 ? from : to);
    }
    __syncthreads();
    const u64 i = cuts[0];
    const u64 j = from - i;
    Rectangle part;
    part.a = Run(a.values + i, cuts[1] - i);
    part.b = Run(b.values + j, to - cuts[1] - j);
    part.hidden = i > 0 && j < b.count && a.values[i - 1] == b.values[j];
    return part;
}

__device__ __forceinline__ u32 merge_serially(const u32 *a, const u32 *a_end, const u32 *b, const u32 *b_end) {
    u32 common = 0;
    while (a < a_end && b < b_end) {
        const u32 x = __ldg(a);
        const u32 y = __ldg(b);
        common += x == y;
        a += x <= y;
        b += y <= x;
    }
    return common;
}

// By all threads of a block.
__device__ __forceinline__ u32 intersect_by_path(const Rectangle &part) {
    const u64 total = part.a.count + part.b.count;
    const u64 from = total * threadIdx.x / blockDim.x;
    const u64 to = total * (threadIdx.x + 1) / blockDim.x;
    if (from == to) {
        return threadIdx.x == 0 ? part.hidden : 0;
    }
    const u32 *const a = part.a.values;
    const u32 *const b = part.b.values;
    const u64 i = cut_path(a, part.a.count, b, part.b.count, from);
    const u64 end = cut_path(a, part.a.count, b, part.b.count, to);
    const u64 j = from - i;
    u32 common = merge_serially(a + i, a + end, b + j, b + (to - end));
    common += i > 0 && j < part.b.count && a[i - 1] == b[j];
    return common + (threadIdx.x == 0 ? part.hidden : 0);
}

__device__ __forceinline__ void by_paths(const PairsWork &work) {
    for (u64 item = blockIdx.x; item < PairPart::items(work); item += gridDim.x) {
        const PairPart part(work, item);
        const u64 from = part.diagonal(work, part.part);
        const u64 to = part.diagonal(work, part.part + 1);
        part.give(work, intersect_by_path(rectangle(part.a, part.b, from, to)));
    }
}
