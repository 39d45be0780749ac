// Overlaps by light tokens. A block owns a tile of overlaps in shared memory and goes through ranges of
// tokens: it puts those of the tile's rows into short lists by their hashes, then looks up those of its
// columns. The index never leaves shared memory, and each token is read once for every tile.
#pragma once

#include "large_abi.cuh"
#include "large_path.cuh"

// Where each range of tokens begins in each set, for rows and columns.
__device__ __forceinline__ void find_starts(const Sets &sets, u32 count, const u32 *cuts, u32 ranges, u32 *starts) {
    const u64 threads = u64{gridDim.x} * blockDim.x;
    const u64 each = u64{ranges} + 1;
    for (u64 i = u64{blockIdx.x} * blockDim.x + threadIdx.x; i < each * count; i += threads) {
        const u64 set = i / each;
        const u64 first = __ldg(&sets.offsets[set]);
        const u64 end = __ldg(&sets.offsets[set + 1]);
        starts[i] = static_cast<u32>(first_from(sets.tokens, first, end, __ldg(&cuts[i % each])) - first);
    }
}

// The tokens of a range that the sets of a side of a tile have.
struct Stretch {
    const u32 *tokens;
    u32 count;

    __device__ __forceinline__ Stretch(const Sets &sets, const u32 *starts, u64 ranges, u64 set, u32 range) {
        const u32 *const at = starts + set * (ranges + 1) + range;
        const u32 start = __ldg(at);
        tokens = sets.tokens + __ldg(&sets.offsets[set]) + start;
        count = __ldg(at + 1) - start;
    }
};

// TILE rows and columns; a thread for each row.
template <u32 TILE, u32 THREADS>
struct LightTile {
    static_assert(TILE <= THREADS && TILE <= 256, "a thread for each row, and rows of 8 bits");
    static constexpr u32 NONE = 0xffffu;
    // Words of dynamic shared memory besides postings (two words each) and lists.
    static constexpr u32 WORDS = TILE * TILE;

    const LargeWork &work;
    // The overlap of row r and column c of the tile is overlaps[c * TILE + r].
    u32 *overlaps;
    u32 *tokens;
    // Of a posting: its row, and the next posting of its list in the upper half.
    u32 *links;
    u32 *lists;
    // The tile's first row and column, and those that there are.
    u32 first_row;
    u32 first_column;
    u32 rows;
    u32 columns;

    __device__ __forceinline__ LightTile(const LargeWork &work, u32 *shared)
        : work(work),
          overlaps(shared),
          tokens(overlaps + WORDS),
          links(tokens + work.postings),
          lists(links + work.postings),
          first_row(0),
          first_column(0),
          rows(0),
          columns(0) {}

    // By all threads.
    __device__ __forceinline__ void begin(u32 row, u32 column) {
        first_row = row;
        first_column = column;
        rows = min(TILE, work.row_count - row);
        columns = min(TILE, work.column_count - column);
        for (u32 i = threadIdx.x; i < WORDS; i += THREADS) {
            overlaps[i] = 0;
        }
    }

    // Counts the tokens of a range. By all threads.
    __device__ __forceinline__ void count(u32 range) {
        __shared__ u32 firsts[TILE + 1];
        const u32 total = sum_up(range, firsts);
        for (u32 done = 0; done < total; done += work.postings) {
            for (u32 i = threadIdx.x; i < work.lists; i += THREADS) {
                lists[i] = NONE;
            }
            __syncthreads();
            put_rows(range, firsts, done);
            __syncthreads();
            look_up_columns(range);
            __syncthreads();
        }
    }

    // Adds the tile to the overlaps. By all threads.
    __device__ __forceinline__ void finish() {
        __syncthreads();
        for (u32 i = threadIdx.x; i < WORDS; i += THREADS) {
            // Neighbours of a warp are columns of a row.
            const u32 row = i / TILE;
            const u32 column = i % TILE;
            const u32 overlap = overlaps[column * TILE + row];
            if (overlap > 0) {
                atomicAdd(&work.overlaps[(u64{first_row} + row) * work.column_count + first_column + column], overlap);
            }
        }
        __syncthreads();
    }

private:
    __device__ __forceinline__ u32 list_of(u32 token) const {
        return token * 0x9e3779b1u >> (__clz(static_cast<int>(work.lists)) + 1);
    }

    // The number of postings of rows in front of each row. Returns that of all. By all threads.
    __device__ __forceinline__ u32 sum_up(u32 range, u32 *firsts) const {
        __shared__ u32 sums[MAX_WARPS];
        u32 own = 0;
        if (threadIdx.x < rows) {
            own = Stretch(work.rows, work.row_starts, work.range_count, u64{first_row} + threadIdx.x, range).count;
        }
        u32 sum = own;
#pragma unroll
        for (u32 distance = 1; distance < WARP; distance *= 2) {
            const u32 other = __shfl_up_sync(ALL_LANES, sum, distance);
            sum += lane_id() >= distance ? other : 0;
        }
        if (lane_id() == WARP - 1) {
            sums[warp_id()] = sum;
        }
        __syncthreads();
        u32 before = 0;
        for (u32 warp = 0; warp < warp_id(); ++warp) {
            before += sums[warp];
        }
        if (threadIdx.x < TILE) {
            firsts[threadIdx.x + 1] = before + sum;
        }
        if (threadIdx.x == 0) {
            firsts[0] = 0;
        }
        __syncthreads();
        return firsts[TILE];
    }

    // Puts the postings of rows from `done` on into lists, as far as there is room. A warp for a row.
    __device__ __forceinline__ void put_rows(u32 range, const u32 *firsts, u32 done) const {
        for (u32 row = warp_id(); row < rows; row += THREADS / WARP) {
            const u32 first = firsts[row];
            if (firsts[row + 1] <= done || first >= done + work.postings) {
                continue;
            }
            const Stretch stretch(work.rows, work.row_starts, work.range_count, u64{first_row} + row, range);
            const u32 start = done > first ? done - first : 0;
            const u32 end = min(stretch.count, done + work.postings - first);
            for (u32 i = start + lane_id(); i < end; i += WARP) {
                const u32 posting = first + i - done;
                const u32 token = __ldg(&stretch.tokens[i]);
                tokens[posting] = token;
                const u32 next = atomicExch(&lists[list_of(token)], posting);
                links[posting] = next << 16 | row;
            }
        }
    }

    // Counts what the columns' tokens have in common with the postings. A warp for a column.
    __device__ __forceinline__ void look_up_columns(u32 range) const {
        for (u32 column = warp_id(); column < columns; column += THREADS / WARP) {
            const Stretch stretch(work.columns, work.column_starts, work.range_count, u64{first_column} + column, range);
            // The first row that the column meets.
            const u64 behind = u64{work.first_column} + first_column + column + 1;
            const u64 before = u64{work.first_row} + first_row;
            const u64 met = work.same && behind > before ? behind - before : 0;
            u32 *const counts = overlaps + column * TILE;
            for (u32 i = lane_id(); i < stretch.count; i += WARP) {
                const u32 token = __ldg(&stretch.tokens[i]);
                u32 posting = lists[list_of(token)];
                while (posting != NONE) {
                    const u32 link = links[posting];
                    const u32 row = link & 0xffff;
                    if (tokens[posting] == token && row >= met) {
                        atomicAdd(&counts[row], 1u);
                    }
                    posting = link >> 16;
                }
            }
            __syncwarp();
        }
    }
};

// Takes jobs, each some ranges of a tile.
template <u32 TILE, u32 THREADS>
__device__ __forceinline__ void count_light(const LargeWork &work) {
    DYNAMIC_SHARED(shared);
    __shared__ u32 taken;
    LightTile<TILE, THREADS> tile(work, shared);
    const u32 row_tiles = (work.row_count + TILE - 1) / TILE;
    const u32 column_tiles = (work.column_count + TILE - 1) / TILE;
    const u64 tiles = u64{row_tiles} * column_tiles;
    const u64 jobs = tiles * ((work.range_count + work.job_ranges - 1) / work.job_ranges);
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) {
            taken = atomicAdd(&work.tally->next_light, 1u);
        }
        __syncthreads();
        const u64 job = taken;
        if (job >= jobs) {
            return;
        }
        const u32 row = static_cast<u32>(job % tiles / column_tiles) * TILE;
        const u32 column = static_cast<u32>(job % tiles % column_tiles) * TILE;
        if (!work.meets(min(work.row_count, row + TILE) - 1, column)) {
            continue;
        }
        const u32 first = static_cast<u32>(job / tiles) * work.job_ranges;
        const u32 end = min(work.range_count, first + work.job_ranges);
        tile.begin(row, column);
        for (u32 range = first; range < end; ++range) {
            tile.count(range);
        }
        tile.finish();
    }
}
