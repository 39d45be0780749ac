// A block owns a probe set and all of its threads cooperate on each pair, by intersect
// path: the merge of two runs of tokens is a path through their matrix, cut by cross diagonals into
// stretches of equal length, one a thread (Green, McColl, Bader: "GPU merge path", ICS 2012). Runs
// of any length go through shared memory tile by tile. For large sets.
#pragma once

#include "sink.cuh"
#include "warp_batch.cuh"

// With less shared memory than this, in words, tokens are read where they are.
constexpr u32 LEAST_STAGED_WORDS = 64;
// The tile is then this many tokens of each side.
constexpr u32 UNSTAGED_TILE = 1024;

// The common tokens of two runs that the thread's stretch of their merge meets. Of equal tokens
// the path consumes the probe's first, when the build's is still the next one: each common token is
// met by exactly the thread that consumes the probe's.
__device__ __forceinline__ u32 common_on_path(const u32 *probe, u32 probe_count, const u32 *build, u32 build_count) {
    const u32 total = probe_count + build_count;
    const u32 stretch = (total + blockDim.x - 1) / blockDim.x;
    const u32 from = min(threadIdx.x * stretch, total);
    const u32 steps = min(stretch, total - from);
    // The path crosses the diagonal behind the probe tokens that are no greater than the build
    // token across.
    u32 i = from > build_count ? from - build_count : 0;
    u32 high = min(from, probe_count);
#pragma unroll 1
    while (i < high) {
        const u32 middle = (i + high) / 2;
        if (probe[middle] <= build[from - 1 - middle]) {
            i = middle + 1;
        } else {
            high = middle;
        }
    }
    u32 j = from - i;
    u32 common = 0;
    for (u32 step = 0; step < steps && i < probe_count && j < build_count; ++step) {
        const u32 p = probe[i];
        const u32 b = build[j];
        common += p == b;
        i += p <= b;
        j += p > b;
    }
    return common;
}

// How many of `count` ascending tokens are no greater than `token`.
__device__ __forceinline__ u32 count_up_to(const u32 *tokens, u32 count, u32 token) {
    u32 low = 0;
#pragma unroll 1
    while (low < count) {
        const u32 middle = low + (count - low) / 2;
        if (tokens[middle] <= token) {
            low = middle + 1;
        } else {
            count = middle;
        }
    }
    return low;
}

// The sum over the block, in every thread. `sums` have room for a word a warp; a barrier must lie
// between two calls.
__device__ __forceinline__ u32 sum_of_block(u32 value, u32 *sums) {
    value = sum_of_lanes<WARP>(value);
    if (lane_id() == 0) {
        sums[warp_id()] = value;
    }
    __syncthreads();
    value = 0;
    for (u32 warp = 0; warp < warps(); ++warp) {
        value += sums[warp];
    }
    return value;
}

// How a group's tokens reach the threads.
struct Tiles {
    // Tokens of either side in a tile.
    u32 length;
    // Where the probe's and the build set's tiles lie; null where tokens are read in place.
    u32 *probe;
    u32 *build;
    // Whether `probe` holds all of the probe set, for the whole group.
    bool resident;

    __device__ __forceinline__ Tiles(const ProbeGroup &group, u32 *shared, u32 words) {
        if (words < LEAST_STAGED_WORDS) {
            length = UNSTAGED_TILE;
            probe = build = nullptr;
            resident = false;
            return;
        }
        probe = shared;
        resident = group.size <= words / 2;
        build = shared + (resident ? group.size : words / 2);
        length = words - static_cast<u32>(build - shared);
        if (!resident) {
            length = words / 2;
            return;
        }
        stage(probe, group.tokens, group.size);
    }

    static __device__ __forceinline__ void stage(u32 *tile, const u32 *tokens, u32 count) {
        for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
            tile[i] = __ldg(&tokens[i]);
        }
    }
};

// The overlap of an open pair, which every thread of the block holds alike. Stops when the required
// one is out of reach or, unless `exact`, reached. `sums`: a word a warp.
__device__ __forceinline__ u32 intersect_by_block(const ProbeGroup &group, const Pair &pair, const Tiles &tiles,
                                                  u32 *sums, u32 exact) {
    u32 overlap = pair.overlap;
    u32 probe_left = pair.probe_left;
    u32 build_left = pair.left;
    while (probe_left > 0 && build_left > 0) {
        const u32 *probe = group.tokens + (group.size - probe_left);
        const u32 *build = pair.tokens + (pair.left - build_left);
        const u32 probe_count = min(probe_left, tiles.length);
        const u32 build_count = min(build_left, tiles.length);
        if (tiles.probe) {
            if (!tiles.resident) {
                Tiles::stage(tiles.probe, probe, probe_count);
            }
            Tiles::stage(tiles.build, build, build_count);
            probe = tiles.resident ? tiles.probe + (group.size - probe_left) : tiles.probe;
            build = tiles.build;
        }
        __syncthreads();
        const u32 common = common_on_path(probe, probe_count, build, build_count);
        // Both sides go on behind the last token of the tile that ends first: what is left of the
        // other one may have partners yet to come.
        u32 probe_done = probe_count;
        u32 build_done = build_count;
        if (probe_count < probe_left || build_count < build_left) {
            const u32 last_probe = probe[probe_count - 1];
            const u32 last_build = build[build_count - 1];
            if (last_probe < last_build) {
                build_done = count_up_to(build, build_count, last_probe);
            } else if (last_build < last_probe) {
                probe_done = count_up_to(probe, probe_count, last_build);
            }
        }
        // Behind its barrier the tile may be overwritten.
        overlap += sum_of_block(common, sums);
        probe_left -= probe_done;
        build_left -= build_done;
        if (overlap + min(probe_left, build_left) < pair.required || (!exact && overlap >= pair.required)) {
            break;
        }
    }
    return overlap;
}

template <class Sink>
__device__ __forceinline__ void block_per_pair(const Chunk &chunk) {
    DYNAMIC_SHARED(shared);
    __shared__ u32 sums[MAX_WARPS];
    Sink sink(chunk);
    for (u64 number = blockIdx.x; number < chunk.group_count; number += gridDim.x) {
        const ProbeGroup group(chunk, number);
        // All threads have left the former group.
        __syncthreads();
        const Tiles tiles(group, shared, chunk.shared_words);
        // Each warp takes the same candidates, so that all threads know of each pair.
        for (u64 base = group.start; base < group.end; base += WARP) {
            WarpBatch batch(chunk, group, base);
            u32 open = batch.open;
            while (open != 0) {
                const int owner = __ffs(static_cast<int>(open)) - 1;
                open &= open - 1;
                Pair pair;
                pair.build = __shfl_sync(ALL_LANES, batch.pair.build, owner);
                pair.overlap = __shfl_sync(ALL_LANES, batch.pair.overlap, owner);
                pair.required = __shfl_sync(ALL_LANES, batch.pair.required, owner);
                pair.probe_left = __shfl_sync(ALL_LANES, batch.pair.probe_left, owner);
                pair.left = __shfl_sync(ALL_LANES, batch.pair.left, owner);
                const u64 address = reinterpret_cast<u64>(batch.pair.tokens);
                pair.tokens = reinterpret_cast<const u32 *>(__shfl_sync(ALL_LANES, address, owner));
                const u32 overlap = intersect_by_block(group, pair, tiles, sums, chunk.exact);
                if (lane_id() == static_cast<u32>(owner)) {
                    batch.pair.overlap = overlap;
                }
                if (chunk.first_only && overlap >= pair.required) {
                    break;
                }
            }
            // What is open still has been left out for a match.
            const bool matched = batch.matches() && !(open >> lane_id() & 1);
            if (warp_id() == 0) {
                sink.push(matched, group, batch.pair);
            }
            if (chunk.first_only && __any_sync(ALL_LANES, matched)) {
                break;
            }
        }
    }
    sink.finish();
}
