// An inverted index of prefixes, made from resident tokens: postings are filled in the order of their
// sets and sorted by their tokens, digit by digit, so that the sets of a list ascend.
#pragma once

#include "index_abi.cuh"
#include "index_sort.cuh"
#include "runs.cuh"

// Threads of a block that sorts, and postings of each. `set/bwjoin/abi.rs` has both.
constexpr u32 SORT_THREADS = 256;
constexpr u32 SORT_ITEMS = 8;
constexpr u32 SORT_TILE = SORT_THREADS * SORT_ITEMS;

// The bits of the lanes above; `all` gets those of all lanes. By all lanes of a warp.
__device__ __forceinline__ u32 bits_above(u32 bits, u32 &all) {
#pragma unroll
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        const u32 above = __shfl_down_sync(ALL_LANES, bits, distance);
        bits |= lane_id() + distance < WARP ? above : 0;
    }
    all = __shfl_sync(ALL_LANES, bits, 0);
    const u32 above = __shfl_down_sync(ALL_LANES, bits, 1);
    return lane_id() + 1 < WARP ? above : 0;
}

// A warp writes the postings of a set, the last ones first.
__device__ __forceinline__ void fill_postings(const Indexing &part) {
    const u32 step = gridDim.x * warps();
    for (u32 set = part.first_set + blockIdx.x * warps() + warp_id(); set < part.end_set; set += step) {
        const IndexRun run = run_before(part.runs, part.run_count, set);
        if (lane_id() == 0) {
            part.classes[set] = run.size_class;
        }
        const u64 first = __ldg(&part.sets.offsets[set]);
        const u32 size = static_cast<u32>(__ldg(&part.sets.offsets[set + u64{1}]) - first);
        const u64 posting = run.posting + u64{set - run.first} * run.prefix - part.first_posting;
        u32 behind = 0;
#pragma unroll 1
        for (u32 chunk = (size + WARP - 1) / WARP; run.prefix > 0 && chunk-- > 0;) {
            const u32 at = chunk * WARP + lane_id();
            const u32 token = at < size ? __ldg(&part.sets.tokens[first + at]) : 0;
            u32 all;
            const u32 above = bits_above(at < size ? 1u << token % 32 : 0, all);
            if (at < run.prefix) {
                const u64 place = posting + at;
                part.unsorted.sets[place] = set;
                part.unsorted.places[place] = PostingPlace{at, run.size_class};
                part.unsorted.signatures[place] = above | behind;
                part.tokens[place] = token;
                part.numbers[place] = static_cast<u32>(place);
            }
            behind |= all;
        }
    }
}

__device__ __forceinline__ u32 digit_of(const Indexing &part, u32 token) {
    return token >> part.shift & (DIGITS - 1);
}

// A block counts the digits of a tile.
__device__ __forceinline__ void count_digits(const Indexing &part) {
    __shared__ u32 counts[DIGITS];
    for (u32 tile = blockIdx.x; tile < part.tiles; tile += gridDim.x) {
        if (threadIdx.x < DIGITS) {
            counts[threadIdx.x] = 0;
        }
        __syncthreads();
        const u64 first = u64{tile} * SORT_TILE;
        for (u64 at = first + threadIdx.x; at < min(first + SORT_TILE, u64{part.posting_count}); at += blockDim.x) {
            atomicAdd(&counts[digit_of(part, part.tokens[at])], 1u);
        }
        __syncthreads();
        if (threadIdx.x < DIGITS) {
            part.counts[u64{threadIdx.x} * part.tiles + tile] = counts[threadIdx.x];
        }
        __syncthreads();
    }
}

// A block turns the counts of a digit into sums of those before, and notes the sum of all.
__device__ __forceinline__ void sum_digits(const Indexing &part) {
    __shared__ u32 of_warps[MAX_WARPS + 1];
    for (u32 digit = blockIdx.x; digit < DIGITS; digit += gridDim.x) {
        u32 *counts = part.counts + u64{digit} * part.tiles;
        u32 sum = 0;
        for (u32 base = 0; base < part.tiles; base += blockDim.x) {
            const u32 tile = base + threadIdx.x;
            const u32 count = tile < part.tiles ? counts[tile] : 0;
            const u32 to_lane = sum_to_lane(count);
            if (lane_id() == WARP - 1) {
                of_warps[warp_id()] = to_lane;
            }
            __syncthreads();
            if (warp_id() == 0) {
                const u32 all = sums_before(of_warps, warps());
                if (lane_id() == 0) {
                    of_warps[MAX_WARPS] = all;
                }
            }
            __syncthreads();
            if (tile < part.tiles) {
                counts[tile] = sum + of_warps[warp_id()] + to_lane - count;
            }
            sum += of_warps[MAX_WARPS];
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            part.counts[u64{DIGITS} * part.tiles + digit] = sum;
        }
    }
}

// A block moves the postings of a tile to the places of their digits. Blocks have SORT_THREADS.
__device__ __forceinline__ void move_by_digit(const Indexing &part) {
    __shared__ u32 counts[DIGITS * SORT_TILE / WARP];
    __shared__ u32 begins[DIGITS];
    const u32 strips = SORT_ITEMS * warps();
    for (u32 tile = blockIdx.x; tile < part.tiles; tile += gridDim.x) {
        const u64 first = u64{tile} * SORT_TILE;
        u32 digits[SORT_ITEMS];
        u32 places[SORT_ITEMS];
#pragma unroll
        for (u32 i = 0; i < SORT_ITEMS; ++i) {
            const u64 at = first + i * blockDim.x + threadIdx.x;
            digits[i] = at < part.posting_count ? digit_of(part, part.tokens[at]) : DIGITS - 1;
        }
        places_by_digit(digits, places, counts);
        if (threadIdx.x < DIGITS) {
            u32 begin = part.counts[u64{threadIdx.x} * part.tiles + tile];
            for (u32 digit = 0; digit < threadIdx.x; ++digit) {
                begin += part.counts[u64{DIGITS} * part.tiles + digit];
            }
            begins[threadIdx.x] = begin;
        }
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < SORT_ITEMS; ++i) {
            const u64 at = first + i * blockDim.x + threadIdx.x;
            if (at < part.posting_count) {
                const u32 place = begins[digits[i]] + places[i] - counts[digits[i] * strips];
                part.next_tokens[place] = part.tokens[at];
                part.next_numbers[place] = part.numbers[at];
            }
        }
        // `begins` is written anew; `counts` is behind a barrier.
        __syncthreads();
    }
}

// A thread looks up where the postings of a token begin, and copies a posting to its place.
__device__ __forceinline__ void finish_index(const Indexing &part) {
    const u64 thread = u64{blockIdx.x} * blockDim.x + threadIdx.x;
    const u64 step = u64{gridDim.x} * blockDim.x;
    for (u64 token = thread; token <= part.universe; token += step) {
        u32 low = 0;
        u32 high = part.posting_count;
        while (low < high) {
            const u32 middle = low + (high - low) / 2;
            if (part.tokens[middle] < token) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        part.offsets[token] = low;
    }
    for (u64 at = thread; at < part.posting_count; at += step) {
        const u32 number = part.numbers[at];
        part.sorted.sets[at] = part.unsorted.sets[number];
        part.sorted.places[at] = part.unsorted.places[number];
        part.sorted.signatures[at] = part.unsorted.signatures[number];
    }
}
