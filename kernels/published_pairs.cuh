// The pairs of sets of a work, and the parts that blocks take of them.
#pragma once

#include "large_path.cuh"
#include "published_intersection_abi.cuh"

// A run of tokens.
struct Run {
    const u32 *values;
    u64 count;

    __device__ __forceinline__ Run() : values(nullptr), count(0) {}
    __device__ __forceinline__ Run(const u32 *values, u64 count) : values(values), count(count) {}
    __device__ __forceinline__ Run(const Sets &sets, u32 set) {
        const u64 first = __ldg(&sets.offsets[set]);
        values = sets.tokens + first;
        count = __ldg(&sets.offsets[set + u64{1}]) - first;
    }
};

// Pairs have numbers: (0, 1), (0, 2), (1, 2), (0, 3), ...
__device__ __forceinline__ void pair_of(u64 number, u32 &first, u32 &second) {
    u64 guess = static_cast<u64>(__dsqrt_rn(2.0 * static_cast<double>(number)));
    while (guess * (guess + 1) / 2 > number) {
        --guess;
    }
    while ((guess + 1) * (guess + 2) / 2 <= number) {
        ++guess;
    }
    second = static_cast<u32>(guess + 1);
    first = static_cast<u32>(number - guess * (guess + 1) / 2);
}

__device__ __forceinline__ u64 number_of(u32 first, u32 second) { return u64{second} * (second - 1) / 2 + first; }

// The part of a pair that a block takes.
struct PairPart {
    u64 pair;
    u32 part;
    Run a;
    Run b;

    __device__ __forceinline__ PairPart(const PairsWork &work, u64 item)
        : pair(work.first_pair + item / work.parts), part(static_cast<u32>(item % work.parts)) {
        u32 first;
        u32 second;
        pair_of(pair, first, second);
        a = Run(work.sets, first);
        b = Run(work.sets, second);
    }

    static __device__ __forceinline__ u64 items(const PairsWork &work) {
        return (work.end_pair - work.first_pair) * work.parts;
    }

    // Where the path of the pair is cut in front of the part, or of the next one.
    __device__ __forceinline__ u64 diagonal(const PairsWork &work, u32 part) const {
        return (a.count + b.count) / work.parts * part + min(u64{part}, (a.count + b.count) % work.parts);
    }

    // Adds what the threads of a block have found. By all of them.
    __device__ __forceinline__ void give(const PairsWork &work, u32 common) const {
        const u32 sum = sum_of_block(common);
        if (threadIdx.x == 0 && sum > 0) {
            atomicAdd(&work.overlaps[pair - work.first_pair], sum);
        }
    }
};
