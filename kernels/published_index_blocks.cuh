// Blockwise filtering: a block a row, as published for Bwjoin. A super-step takes a slice of the
// row's prefix, a token a thread. Its steps gather postings in a tile of shared memory, list by list
// (the micro-steps), sort the tile by set, mark the first of each run that key, size and the places of
// the token admit, and write these with one reservation. A row that finds no room is left with the
// first posting of its step.
//
// A pair with several common tokens may pass in several tiles: it counts under its first one alone,
// which the sort keeps in front of its run, and the comparison of tokens tells.
#pragma once

#include "index_rows.cuh"
#include "index_sort.cuh"

// Postings of a tile, for each thread. The host reserves words of shared memory by it.
constexpr u32 TILE_ITEMS = 4;

// The shared memory of a block.
struct BlockTile {
    u32 size;
    u32 *keys;
    u32 *items;
    // By item: its list and its posting.
    u32 *lists;
    u32 *postings;
    u32 *counts;
    // By list of a slice.
    u32 *begins;
    u32 *lengths;

    // `words`: 28 for each thread, and one.
    __device__ __forceinline__ explicit BlockTile(u32 *words) : size(TILE_ITEMS * blockDim.x) {
        keys = words;
        items = keys + 2 * size;
        lists = items + 2 * size;
        postings = lists + size;
        // DIGITS counters for each item of a warp.
        counts = postings + size;
        begins = counts + DIGITS * size / WARP + 1;
        lengths = begins + blockDim.x;
    }
};

struct BlockProbe {
    const IndexWork &work;
    const BlockTile tile;
    // The bits of the numbers of columns within the part.
    const u32 part_bits;
    u64 read = 0;

    __device__ __forceinline__ BlockProbe(const IndexWork &work, u32 *words)
        : work(work), tile(words), part_bits(bits_of(work.part_end - work.part_first)) {}

    // False where candidates have found no room, the row being left.
    __device__ __forceinline__ bool probe(const Row &row) {
        u64 of_row = 0;
        for (u32 slice = row.state.place; slice < row.prefix; slice += blockDim.x) {
            const u32 lists = min(row.prefix - slice, blockDim.x);
            __syncthreads();
            if (threadIdx.x < lists) {
                const List list = row.list(work, slice + threadIdx.x);
                tile.begins[threadIdx.x] = list.begin;
                tile.lengths[threadIdx.x] = list.length;
            }
            __syncthreads();
            u32 list = 0;
            u32 offset = 0;
            while (true) {
                const u32 filled = fill(lists, list, offset);
                if (filled == 0) {
                    break;
                }
                const bool is_over = of_row >= work.row_budget;
                const bool has_room = is_over || write(row, slice, filled);
                if (is_over || !has_room) {
                    if (threadIdx.x == 0) {
                        const u32 from = work.postings.sets[tile.postings[0]];
                        leave(work, RowState{row.state.row, slice + tile.lists[0], from});
                    }
                    return has_room;
                }
                of_row += filled;
                read += filled;
            }
        }
        return true;
    }

private:
    // The bits of numbers below `count`.
    static __device__ __forceinline__ u32 bits_of(u32 count) {
        return count > 1 ? 32 - static_cast<u32>(__clz(static_cast<int>(count - 1))) : 0;
    }

    // Gathers the next postings; how many there are.
    __device__ __forceinline__ u32 fill(u32 lists, u32 &list, u32 &offset) const {
        // The tile of the step before has been read.
        __syncthreads();
        u32 filled = 0;
        while (filled < tile.size && list < lists) {
            const u32 count = min(tile.lengths[list] - offset, tile.size - filled);
            for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
                const u32 posting = tile.begins[list] + offset + i;
                const u32 item = filled + i;
                tile.keys[item] = __ldg(&work.postings.sets[posting]) - work.part_first;
                tile.items[item] = item;
                tile.lists[item] = list;
                tile.postings[item] = posting;
            }
            filled += count;
            offset += count;
            if (offset == tile.lengths[list]) {
                ++list;
                offset = 0;
            }
        }
        __syncthreads();
        return filled;
    }

    // Whether an item, the first of its run, is admitted by the places of its token.
    __device__ __forceinline__ bool is_admitted(const Row &row, u32 row_at, u32 posting) const {
        const PostingPlace place = work.postings.places[posting];
        const u32 required = required_of(work, row.run, place.size_class);
        const u32 row_behind = row.known - row_at - 1;
        const u32 column_behind = __ldg(&work.sizes[place.size_class]) - place.at - 1;
        return required != NO_OVERLAP && min(row_behind, column_behind) + 1 >= required;
    }

    // Writes the candidates of the tile; false, and nothing done, where they find no room.
    __device__ __forceinline__ bool write(const Row &row, u32 slice, u32 filled) const {
        __shared__ u64 reserved;
        const u32 turn = sort_tile<TILE_ITEMS>(tile.keys, tile.items, filled, part_bits, tile.counts);
        const u32 *keys = tile.keys + turn * tile.size;
        const u32 *items = tile.items + turn * tile.size;
        // The other half is free.
        u32 *shuffled = tile.items + (turn ^ 1) * tile.size;
        bool marked[TILE_ITEMS];
        u32 places[TILE_ITEMS];
#pragma unroll
        for (u32 i = 0; i < TILE_ITEMS; ++i) {
            const u32 at = i * blockDim.x + threadIdx.x;
            marked[i] = at < filled && (at == 0 || keys[at] != keys[at - 1]);
            if (marked[i]) {
                const u32 item = items[at];
                marked[i] = is_admitted(row, slice + tile.lists[item], tile.postings[item]);
            }
        }
        const u32 total = places_of_marked(marked, places, tile.counts);
        if (total == 0) {
            return true;
        }
#pragma unroll
        for (u32 i = 0; i < TILE_ITEMS; ++i) {
            if (marked[i]) {
                shuffled[places[i]] = items[i * blockDim.x + threadIdx.x];
            }
        }
        if (threadIdx.x == 0) {
            u64 place = 0;
            reserved = reserve(work, total, place) ? place : ~u64{0};
        }
        __syncthreads();
        const u64 place = reserved;
        // Read by all, before the next tile writes it.
        __syncthreads();
        if (place == ~u64{0}) {
            return false;
        }
        for (u32 i = threadIdx.x; i < total; i += blockDim.x) {
            const u32 item = shuffled[i];
            const u32 posting = tile.postings[item];
            work.candidates[place + i] = IndexCandidate{
                row.state.row, __ldg(&work.postings.sets[posting]), slice + tile.lists[item],
                work.postings.places[posting].at};
        }
        return true;
    }
};

__device__ __forceinline__ void probe_by_blocks(const IndexWork &work) {
    DYNAMIC_SHARED(words);
    __shared__ u32 taken[2];
    BlockProbe probe(work, words);
    bool is_out = false;
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) {
            taken[0] = atomicAdd(&work.tally->next, 1u);
            taken[1] = is_full(work);
        }
        __syncthreads();
        const u32 number = taken[0];
        const bool full = is_out || taken[1] != 0;
        if (number >= work.row_count) {
            break;
        }
        const Row row(work, number);
        if (row.start >= row.end) {
            continue;
        }
        if (full) {
            if (threadIdx.x == 0) {
                leave(work, row.state);
            }
            continue;
        }
        is_out = !probe.probe(row);
        if (threadIdx.x == 0 && probe.read > 0) {
            atomicAdd(&work.tally->postings, probe.read);
        }
        probe.read = 0;
    }
}
