// Work row by row: thresholds, their order, buckets of pairs, and the choice of neighbours.
#pragma once

#include "nearest_bounds.cuh"
#include "vector_decide.cuh"

constexpr u32 NEAREST_WARPS = 4;

// The sum over all lanes of a warp.
__device__ __forceinline__ u32 sum_of_warp(u32 value) {
#if !defined(EMULATOR) && __CUDA_ARCH__ >= 800
    return __reduce_add_sync(ALL_LANES, value);
#else
    return sum_of_lanes<WARP>(value);
#endif
}

// The key of place `nth` (from 1 on) among `count` keys in rising order, bit by bit. By all lanes of a warp.
template <class KeyAt>
__device__ __forceinline__ u32 nth_key(const KeyAt &key_at, u32 count, u32 nth) {
    constexpr u32 HELD = 8;
    u32 held[HELD];
#pragma unroll
    for (u32 i = 0; i < HELD; ++i) {
        const u32 place = i * WARP + lane_id();
        held[i] = place < count ? key_at(place) : NOT_SERVED;
    }
    u32 found = 0;
    for (u32 bit = 32; bit > 0; --bit) {
        const u32 above = found | 1u << (bit - 1);
        u32 below = 0;
#pragma unroll
        for (u32 i = 0; i < HELD; ++i) {
            below += held[i] < above ? 1 : 0;
        }
        for (u32 place = HELD * WARP + lane_id(); place < count; place += WARP) {
            below += key_at(place) < above ? 1 : 0;
        }
        found = sum_of_warp(below) < nth ? above : found;
    }
    return found;
}

// Whether a row has no pair, as its bias says.
__device__ __forceinline__ bool has_no_pair(const NearestWork &work, u32 row) {
    if (work.integers) {
        return false;
    }
    const char *tails = static_cast<const char *>(work.tiles.rows.tails);
    const Chunk8 last = Chunk8::load(tails + HalfLayout::within(row, STEP_CHUNKS - 1, STEP_CHUNKS));
    return last.number(2) < -CAP * CAP;
}

// Finds the thresholds of rows, a warp for each, from the best of their groups.
__device__ __forceinline__ void find_thresholds(const NearestWork &work) {
    const NearestErrors errors(work);
    const u32 step = gridDim.x * warps();
    for (u32 row = blockIdx.x * warps() + warp_id(); row < work.row_padded; row += step) {
        float threshold = infinity<float>();
        if (row < work.row_count && !has_no_pair(work, row)) {
            const u32 *groups = work.groups + u64{row} * work.group_count;
            const u32 key = nth_key([=](u32 place) { return groups[place]; }, work.group_count, work.neighbours);
            if (key <= key_of(work.integers ? NO_INTEGER_SUM : NO_SUM)) {
                threshold = errors.threshold(key);
            } else if (lane_id() == 0) {
                // Of vectors that are none, sums lie below.
                atomicAdd(&work.summary->unbounded, 1u);
            }
        }
        if (lane_id() == 0) {
            work.thresholds[row] = threshold;
            if (threshold < 0) {
                atomicMax(&work.summary->lowest, key_of(threshold));
                atomicMax(&work.summary->highest, ~key_of(threshold));
            }
        }
    }
}

// The bin of a threshold: the lower, the earlier.
__device__ __forceinline__ u32 bin_of(const NearestWork &work, float threshold) {
    if (!(threshold < 0)) {
        return NEAREST_BINS;
    }
    const float lowest = __uint_as_float(work.summary->lowest);
    const float highest = __uint_as_float(~work.summary->highest);
    const float width = highest - lowest;
    const float place = width > 0 ? (threshold - lowest) / width * (NEAREST_BINS - 1) : 0.0f;
    return min(static_cast<u32>(place), NEAREST_BINS - 1);
}

__device__ __forceinline__ void count_bins(const NearestWork &work) {
    const u32 step = gridDim.x * blockDim.x;
    for (u32 row = blockIdx.x * blockDim.x + threadIdx.x; row < work.row_count; row += step) {
        const float threshold = work.thresholds[row];
        const u32 bin = bin_of(work, threshold);
        atomicAdd(&work.bins[bin], 1u);
        // Of a bin's rows the lowest threshold counts. Of negative numbers it has the greatest bits.
        atomicMax(&work.bin_lowest[bin], key_of(threshold));
    }
}

__device__ __forceinline__ void sort_rows(const NearestWork &work) {
    const u32 step = gridDim.x * blockDim.x;
    for (u32 row = blockIdx.x * blockDim.x + threadIdx.x; row < work.row_padded; row += step) {
        if (row >= work.row_count) {
            work.sorted_thresholds[row] = infinity<float>();
            continue;
        }
        const u32 bin = bin_of(work, work.thresholds[row]);
        const u32 to = atomicAdd(&work.bin_next[bin], 1u);
        work.sorted_order[to] = work.row_order ? work.row_order[row] : row;
        work.sorted_thresholds[to] = __uint_as_float(work.bin_lowest[bin]);
    }
}

// Sums counts up. By one block.
__device__ __forceinline__ void sum_counts(const NearestSum &sum) {
    __shared__ u64 sums[MAX_WARPS * WARP];
    const u64 share = (sum.count + blockDim.x - 1) / blockDim.x;
    const u64 first = min(sum.count, threadIdx.x * share);
    const u64 end = min(sum.count, first + share);
    u64 own = 0;
    for (u64 i = first; i < end; ++i) {
        own += sum.counts[i];
    }
    sums[threadIdx.x] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
        u64 before = 0;
        for (u32 i = 0; i < blockDim.x; ++i) {
            const u64 of_thread = sums[i];
            sums[i] = before;
            before += of_thread;
        }
        if (sum.starts) {
            sum.starts[sum.count] = static_cast<u32>(before);
        }
    }
    __syncthreads();
    u64 before = sums[threadIdx.x];
    for (u64 i = first; i < end; ++i) {
        const u32 count = sum.counts[i];
        if (sum.starts) {
            sum.starts[i] = static_cast<u32>(before);
        }
        sum.next[i] = static_cast<u32>(before);
        before += count;
    }
}

// Whether all pairs that pass are in the list.
__device__ __forceinline__ bool is_listed_whole(const NearestWork &work) {
    return work.tiles.tally->redone == 0 && work.tiles.tally->hits <= work.tiles.capacity;
}

// Calls `take(row, column, key)` for each pair of each row that it belongs to.
template <class Take>
__device__ __forceinline__ void for_each_listed(const NearestWork &work, const Take &take) {
    if (!is_listed_whole(work)) {
        return;
    }
    const u64 total = work.tiles.tally->hits;
    const u64 step = u64{gridDim.x} * blockDim.x;
    for (u64 at = u64{blockIdx.x} * blockDim.x + threadIdx.x; at < total; at += step) {
        const uint2 pair = work.list[at];
        if (pair.x == NO_UNIT) {
            continue;
        }
        const u32 key = work.list_keys[at];
        take(pair.x, pair.y, key);
        const bool is_row = work.tiles.same && pair.y < work.row_count;
        if (is_row && pair.x != pair.y && key <= key_of(work.thresholds[pair.y])) {
            take(pair.y, pair.x, key);
        }
    }
}

__device__ __forceinline__ void count_pairs(const NearestWork &work) {
    u64 kept = 0;
    for_each_listed(work, [&](u32 row, u32, u32) {
        atomicAdd(&work.counts[row], 1u);
        ++kept;
    });
    kept = sum_of_lanes<WARP>(kept);
    if (lane_id() == 0 && kept > 0) {
        atomicAdd(&work.summary->kept, kept);
    }
}

// Whether the buckets have room for all pairs.
__device__ __forceinline__ bool has_buckets(const NearestWork &work) {
    return is_listed_whole(work) && work.summary->kept <= work.bucket_room;
}

__device__ __forceinline__ void fill_buckets(const NearestWork &work) {
    if (has_buckets(work)) {
        for_each_listed(work, [&](u32 row, u32 column, u32 key) {
            work.buckets[atomicAdd(&work.next[row], 1u)] = uint2{column, key};
        });
    }
}

// Pairs that a warp compares.
struct ComparedColumns {
    u32 columns[MOST_COMPARED];
    double values[MOST_COMPARED];
};

// The number of the vector at a position.
__device__ __forceinline__ u32 number_at(const u32 *order, u32 position) { return order ? order[position] : position; }

// Whether fewer columns than a row has neighbours are nearer than the one at a place; or as near and in front of
// it, where ties are not wanted. Values are numbers.
__device__ __forceinline__ bool is_nearest(const NearestWork &work, const ComparedColumns &compared, u32 count,
                                           u32 place) {
    const long long own = order_of(compared.values[place]);
    u32 nearer = 0;
    for (u32 i = 0; i < count; ++i) {
        const long long other = order_of(compared.values[i]);
        nearer += other < own || (other == own && i < place && work.with_ties == 0) ? 1 : 0;
    }
    return nearer < work.neighbours;
}

// Chooses the neighbours of a row. By all lanes of a warp.
__device__ __forceinline__ void choose_neighbours(const NearestWork &work, const NearestErrors &errors,
                                                  ComparedColumns &compared, u32 row) {
    const u32 number = number_at(work.row_order, row);
    const u32 first = work.starts[row];
    const u32 count = work.starts[row + 1] - first;
    const bool is_none = !(work.thresholds[row] < 0);
    u32 open = 0;
    if (!is_none && count >= work.neighbours) {
        const uint2 *bucket = work.buckets + first;
        const u32 worst = nth_key([=](u32 place) { return bucket[place].y; }, count, work.neighbours);
        const u32 last = key_of(errors.threshold(worst));
        for (u32 base = 0; base < count; base += WARP) {
            const u32 place = base + lane_id();
            const uint2 entry = place < count ? bucket[place] : uint2{0, NOT_SERVED};
            const u32 mask = __ballot_sync(ALL_LANES, entry.y <= last);
            const u32 to = open + static_cast<u32>(__popc(mask & lanes_below()));
            if (entry.y <= last && to < MOST_COMPARED) {
                compared.columns[to] = number_at(work.column_order, entry.x);
            }
            open += static_cast<u32>(__popc(mask));
        }
    }
    // A vector of zeros has no neighbours, and any other has.
    if (open == 0 || open > MOST_COMPARED) {
        if (lane_id() == 0) {
            work.found_starts[number] = 0;
            work.found_counts[number] = is_none ? 0 : NOT_SERVED;
            atomicAdd(&work.summary->unserved, is_none ? 0u : 1u);
        }
        return;
    }
    __syncwarp();
    const u32 wide = (work.tiles.rows.wide ? 1u : 0u) | (work.tiles.columns.wide ? 2u : 0u);
    for (u32 i = lane_id(); i < open; i += WARP) {
        compared.values[i] = value_of(work.tiles.metric, work.tiles.rows.values, work.tiles.columns.values, number,
                                      compared.columns[i], wide, work.tiles.dimensions).value;
    }
    __syncwarp();
    u32 own = 0;
    for (u32 i = lane_id(); i < open; i += WARP) {
        own += is_nearest(work, compared, open, i) ? 1 : 0;
    }
    const u32 found = sum_of_warp(own);
    u64 start = 0;
    if (lane_id() == 0) {
        atomicAdd(&work.summary->compared, u64{open});
        start = atomicAdd(&work.summary->found, u64{found});
    }
    start = __shfl_sync(ALL_LANES, start, 0);
    const bool has_room = start + found <= work.found_room;
    if (lane_id() == 0) {
        work.found_starts[number] = static_cast<u32>(min(start, u64{work.found_room}));
        work.found_counts[number] = has_room ? found : NOT_SERVED;
        atomicAdd(&work.summary->unserved, has_room ? 0u : 1u);
    }
    for (u32 base = 0; base < open && has_room; base += WARP) {
        const u32 i = base + lane_id();
        const bool is_one = i < open && is_nearest(work, compared, open, i);
        const u32 mask = __ballot_sync(ALL_LANES, is_one);
        if (is_one) {
            const u64 to = start + static_cast<u32>(__popc(mask & lanes_below()));
            work.found_columns[to] = compared.columns[i];
            work.found_values[to] = compared.values[i];
        }
        start += static_cast<u32>(__popc(mask));
    }
    __syncwarp();
}

__device__ __forceinline__ void choose_neighbours(const NearestWork &work) {
    __shared__ ComparedColumns compared[NEAREST_WARPS];
    const NearestErrors errors(work);
    const u32 step = gridDim.x * warps();
    const bool is_whole = has_buckets(work);
    for (u32 row = blockIdx.x * warps() + warp_id(); row < work.row_count && is_whole; row += step) {
        choose_neighbours(work, errors, compared[warp_id()], row);
    }
}
