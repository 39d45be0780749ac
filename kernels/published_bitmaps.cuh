// Bitmap-based intersection. BI-naive: a bitmap of each set, and population counts of both of a pair.
// BI-dynamic (Bisson, Fatica: "High performance exact triangle counting on GPUs", IEEE TPDS 2017): a
// bitmap of one set at a time, which the values of the other sets are looked up in. Bitmaps have a
// slice of the values.
#pragma once

#include "published_pairs.cuh"

// The values of a set in the slice.
__device__ __forceinline__ Run slice_of(const PairsWork &work, u32 set) {
    const Run all(work.sets, set);
    const u64 low = work.first_value;
    const u64 high = low + work.word_count * 32;
    const u64 start = low > 0xffffffffu ? all.count
                                        : first_from(all.values, u64{0}, all.count, static_cast<u32>(low));
    const u64 end = high > 0xffffffffu ? all.count
                                       : first_from(all.values, start, all.count, static_cast<u32>(high));
    return Run(all.values + start, end - start);
}

// Sets the bits of all sets, or of the current one. Parts are values.
__device__ __forceinline__ void set_bits(const PairsWork &work, bool all) {
    const u64 sets = all ? work.set_count : 1;
    for (u64 item = blockIdx.x; item < sets * work.parts; item += gridDim.x) {
        const u32 number = static_cast<u32>(item / work.parts);
        const Run run = slice_of(work, all ? number : work.current);
        u32 *const words = work.room + number * work.word_count;
        const u64 step = u64{work.parts} * blockDim.x;
        for (u64 i = item % work.parts * blockDim.x + threadIdx.x; i < run.count; i += step) {
            const u64 bit = __ldg(&run.values[i]) - work.first_value;
            atomicOr(&words[bit / 32], 1u << bit % 32);
        }
    }
}

// Parts are words.
__device__ __forceinline__ void by_two_bitmaps(const PairsWork &work) {
    for (u64 item = blockIdx.x; item < PairPart::items(work); item += gridDim.x) {
        const PairPart part(work, item);
        u32 first;
        u32 second;
        pair_of(part.pair, first, second);
        const u32 *const a = work.room + first * work.word_count;
        const u32 *const b = work.room + second * work.word_count;
        const u64 step = u64{work.parts} * blockDim.x;
        u32 common = 0;
        for (u64 i = u64{part.part} * blockDim.x + threadIdx.x; i < work.word_count; i += step) {
            common += static_cast<u32>(__popc(__ldg(&a[i]) & __ldg(&b[i])));
        }
        part.give(work, common);
    }
}

// The pairs of the current set and all before it. Parts are values.
__device__ __forceinline__ void by_one_bitmap(const PairsWork &work) {
    for (u64 item = blockIdx.x; item < u64{work.current} * work.parts; item += gridDim.x) {
        const u32 other = static_cast<u32>(item / work.parts);
        const u64 pair = number_of(other, work.current);
        if (pair < work.first_pair || pair >= work.end_pair) {
            continue;
        }
        const Run run = slice_of(work, other);
        const u64 step = u64{work.parts} * blockDim.x;
        u32 common = 0;
        for (u64 i = item % work.parts * blockDim.x + threadIdx.x; i < run.count; i += step) {
            const u64 bit = __ldg(&run.values[i]) - work.first_value;
            common += __ldg(&work.room[bit / 32]) >> bit % 32 & 1;
        }
        const u32 sum = sum_of_block(common);
        if (threadIdx.x == 0 && sum > 0) {
            atomicAdd(&work.overlaps[pair - work.first_pair], sum);
        }
    }
}
