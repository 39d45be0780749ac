// Counting by a full inverted index, as sf-gSSJoin does (Ribeiro-Junior, Quirino, Ribeiro, Martins:
// "Fast parallel set similarity joins on many-core architectures", JIDM 2017): the pairs of postings of
// all lists are cut evenly over threads, which add to one counter for each pair of sets.
#pragma once

#include "published_pairs.cuh"

// Pairs of postings of a thread.
constexpr u32 PAIRS_EACH = 16;

__device__ __forceinline__ u64 thread_number() { return u64{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 thread_count() { return u64{gridDim.x} * blockDim.x; }

// The last of `count` places, from 0 on, whose number is at most `value`; the first one is.
__device__ __forceinline__ u64 last_at_most(const u64 *numbers, u64 count, u64 value) {
    u64 low = 0;
    u64 high = count;
    while (high - low > 1) {
        const u64 middle = low + (high - low) / 2;
        if (__ldg(&numbers[middle]) <= value) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

__device__ __forceinline__ void count_postings(const PairsWork &work) {
    const u64 total = work.sets.offsets[work.set_count];
    for (u64 i = thread_number(); i < total; i += thread_count()) {
        atomicAdd(&work.counts[__ldg(&work.sets.tokens[i])], 1u);
    }
}

// Running sums over tokens, in pieces of one block each: the piece's sums, those in front of pieces,
// then those in front of tokens.
struct Running {
    u64 postings;
    u64 pairs;

    __device__ __forceinline__ void add(u32 count) {
        postings += count;
        pairs += u64{count} * (count > 0 ? count - 1 : 0) / 2;
    }
};

// The tokens of a piece; there are as many pieces as the grid has blocks.
__device__ __forceinline__ void piece_of(const PairsWork &work, u64 number, u64 pieces, u64 &first, u64 &end) {
    first = u64{work.universe} * number / pieces;
    end = u64{work.universe} * (number + 1) / pieces;
}

__device__ __forceinline__ void sum_pieces(const PairsWork &work) {
    u64 first;
    u64 end;
    piece_of(work, thread_number(), thread_count(), first, end);
    Running running{0, 0};
    for (u64 token = first; token < end; ++token) {
        running.add(work.counts[token]);
    }
    work.sums[2 * thread_number()] = running.postings;
    work.sums[2 * thread_number() + 1] = running.pairs;
}

// By one block; `pieces` as in sum_pieces.
__device__ __forceinline__ void sum_sums(const PairsWork &work) {
    if (threadIdx.x < 2) {
        u64 sum = 0;
        for (u64 piece = 0; piece < work.word_count; ++piece) {
            const u64 own = work.sums[2 * piece + threadIdx.x];
            work.sums[2 * piece + threadIdx.x] = sum;
            sum += own;
        }
        (threadIdx.x == 0 ? work.offsets : work.works)[work.universe] = sum;
    }
}

__device__ __forceinline__ void sum_tokens(const PairsWork &work) {
    u64 first;
    u64 end;
    piece_of(work, thread_number(), thread_count(), first, end);
    Running running{work.sums[2 * thread_number()], work.sums[2 * thread_number() + 1]};
    for (u64 token = first; token < end; ++token) {
        const u32 count = work.counts[token];
        work.offsets[token] = running.postings;
        work.works[token] = running.pairs;
        work.counts[token] = 0;
        running.add(count);
    }
}

__device__ __forceinline__ void fill_postings(const PairsWork &work) {
    for (u64 set = blockIdx.x; set < work.set_count; set += gridDim.x) {
        const Run run(work.sets, static_cast<u32>(set));
        for (u64 i = threadIdx.x; i < run.count; i += blockDim.x) {
            const u32 token = __ldg(&run.values[i]);
            work.room[work.offsets[token] + atomicAdd(&work.counts[token], 1u)] = static_cast<u32>(set);
        }
    }
}

__device__ __forceinline__ void by_postings(const PairsWork &work) {
    const u64 total = work.works[work.universe];
    for (u64 from = thread_number() * PAIRS_EACH; from < total; from += thread_count() * PAIRS_EACH) {
        const u64 to = min(total, from + PAIRS_EACH);
        u64 token = last_at_most(work.works, u64{work.universe} + 1, from);
        u64 next = __ldg(&work.works[token + 1]);
        u32 first;
        u32 second;
        pair_of(from - __ldg(&work.works[token]), first, second);
        for (u64 at = from; at < to; ++at) {
            while (at == next) {
                ++token;
                next = __ldg(&work.works[token + 1]);
                first = 0;
                second = 1;
            }
            const u64 list = __ldg(&work.offsets[token]);
            const u32 x = work.room[list + first];
            const u32 y = work.room[list + second];
            const u64 pair = number_of(min(x, y), max(x, y));
            if (pair >= work.first_pair && pair < work.end_pair) {
                atomicAdd(&work.overlaps[pair - work.first_pair], 1u);
            }
            if (++first == second) {
                first = 0;
                ++second;
            }
        }
    }
}
