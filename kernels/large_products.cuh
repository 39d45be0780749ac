// Overlaps by heavy tokens: products of bit matrices in tiles. A warp has half the rows and columns of
// a tile in registers; chunks of bits come through shared memory, one ahead.
#pragma once

#include "large_abi.cuh"
#include "large_bits.cuh"
#include "matrix.cuh"

// Each with a quarter of a tile's pairs: 64 rows and 64 columns, whose sums take 128 registers.
constexpr u32 LARGE_WARPS = 4;

// The words of a chunk of a side of a tile.
constexpr u32 SIDE_WORDS = LARGE_TILE * CHUNK_WORDS;
// Words of dynamic shared memory: two chunks of both sides, 64 KiB, of which two blocks fit.
constexpr u32 PRODUCT_WORDS = 4 * SIDE_WORDS;

// Copies a chunk of a side of a tile. By all threads.
__device__ __forceinline__ void copy_chunk(u32 *to, const u32 *bits, u64 padded, u64 chunk, u32 first) {
    const uint4 *const from = reinterpret_cast<const uint4 *>(bits + octet_place(chunk, padded, first));
    uint4 *const at = reinterpret_cast<uint4 *>(to);
    for (u32 i = threadIdx.x; i < SIDE_WORDS / 4; i += LARGE_WARPS * WARP) {
#ifdef HAS_MATRIX_PRODUCTS
        copy_beside(&at[i], &from[i]);
#else
        at[i] = from[i];
#endif
    }
}

#ifndef HAS_MATRIX_PRODUCTS
// As the matrix instruction (matrix.cuh), by population counts.
__device__ __forceinline__ void count_common(int (&to)[4], const int (&from)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    const u32 group = lane_id() / 4;
    const u32 place = lane_id() % 4;
    int sums[4] = {from[0], from[1], from[2], from[3]};
#pragma unroll
    for (u32 word = 0; word < 4; ++word) {
        u32 row[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            row[i] = __shfl_sync(ALL_LANES, a[i], static_cast<int>(4 * group + word));
        }
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            const int lane = static_cast<int>(4 * (2 * place + i) + word);
            const u32 low = __shfl_sync(ALL_LANES, b0, lane);
            const u32 high = __shfl_sync(ALL_LANES, b1, lane);
            sums[i] += __popc(row[0] & low) + __popc(row[2] & high);
            sums[2 + i] += __popc(row[1] & low) + __popc(row[3] & high);
        }
    }
    to[0] = sums[0];
    to[1] = sums[1];
    to[2] = sums[2];
    to[3] = sums[3];
}
#endif

// Adds the overlaps of a tile over some chunks.
struct OverlapTile {
    // Tiles of 16 rows and of 8 columns of a warp.
    static constexpr u32 ROWS = LARGE_TILE / 2 / 16;
    static constexpr u32 COLUMNS = LARGE_TILE / 2 / 8;

    int sums[ROWS][COLUMNS][4];
    u32 warp_row;
    u32 warp_column;

    __device__ __forceinline__ OverlapTile()
        : warp_row(warp_id() / 2 * (LARGE_TILE / 2)), warp_column(warp_id() % 2 * (LARGE_TILE / 2)) {
#pragma unroll
        for (u32 row = 0; row < ROWS; ++row) {
#pragma unroll
            for (u32 column = 0; column < COLUMNS; ++column) {
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    sums[row][column][i] = 0;
                }
            }
        }
    }

    // Adds a chunk that lies in shared memory. By all lanes of a warp.
    __device__ __forceinline__ void add(const u32 *rows, const u32 *columns) {
#pragma unroll 1
        for (u32 step = 0; step < CHUNK_BITS / 256; ++step) {
            const u32 at = step * 64 + lane_id();
            u32 a[ROWS][4];
#pragma unroll
            for (u32 row = 0; row < ROWS; ++row) {
                const u32 *const octet = rows + (warp_row + row * 16) * CHUNK_WORDS + at;
                a[row][0] = octet[0];
                a[row][1] = octet[OCTET * CHUNK_WORDS];
                a[row][2] = octet[32];
                a[row][3] = octet[OCTET * CHUNK_WORDS + 32];
            }
#pragma unroll
            for (u32 column = 0; column < COLUMNS; ++column) {
                const u32 *const octet = columns + (warp_column + column * 8) * CHUNK_WORDS + at;
                const u32 low = octet[0];
                const u32 high = octet[32];
#pragma unroll
                for (u32 row = 0; row < ROWS; ++row) {
                    count_common(sums[row][column], sums[row][column], a[row], low, high);
                }
            }
        }
    }

    __device__ __forceinline__ void give(const LargeWork &work, u32 first_row, u32 first_column) const {
        const u32 group = lane_id() / 4;
        const u32 place = lane_id() % 4;
#pragma unroll
        for (u32 row = 0; row < ROWS; ++row) {
#pragma unroll
            for (u32 column = 0; column < COLUMNS; ++column) {
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    const u32 r = first_row + warp_row + row * 16 + group + i / 2 * 8;
                    const u32 c = first_column + warp_column + column * 8 + 2 * place + i % 2;
                    const bool counts = r < work.row_count && c < work.column_count && work.meets(r, c);
                    if (counts && sums[row][column][i] > 0) {
                        atomicAdd(&work.overlaps[u64{r} * work.column_count + c], static_cast<u32>(sums[row][column][i]));
                    }
                }
            }
        }
    }
};

// Takes jobs, each some chunks of a tile. Blocks of LARGE_WARPS warps.
__device__ __forceinline__ void count_heavy(const LargeWork &work) {
    ALIGNED_SHARED(shared);
    __shared__ u32 taken;
    const u32 row_tiles = (work.row_count + LARGE_TILE - 1) / LARGE_TILE;
    const u32 column_tiles = (work.column_count + LARGE_TILE - 1) / LARGE_TILE;
    const u64 tiles = u64{row_tiles} * column_tiles;
    const u64 jobs = tiles * ((work.chunk_count + work.job_chunks - 1) / work.job_chunks);
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) {
            taken = atomicAdd(&work.tally->next_heavy, 1u);
        }
        __syncthreads();
        const u64 job = taken;
        if (job >= jobs) {
            return;
        }
        const u32 row = static_cast<u32>(job % tiles / column_tiles) * LARGE_TILE;
        const u32 column = static_cast<u32>(job % tiles % column_tiles) * LARGE_TILE;
        if (!work.meets(min(work.row_count, row + LARGE_TILE) - 1, column)) {
            continue;
        }
        const u32 first = static_cast<u32>(job / tiles) * work.job_chunks;
        const u32 end = min(work.chunk_count, first + work.job_chunks);
        const auto copy = [&](u32 chunk) {
            if (chunk < end) {
                u32 *const at = shared + (chunk - first) % 2 * (2 * SIDE_WORDS);
                copy_chunk(at, work.row_bits, u64{row_tiles} * LARGE_TILE, chunk, row);
                copy_chunk(at + SIDE_WORDS, work.column_bits, u64{column_tiles} * LARGE_TILE, chunk, column);
            }
#ifdef HAS_MATRIX_PRODUCTS
            end_copies();
#endif
        };
        OverlapTile tile;
        copy(first);
        for (u32 chunk = first; chunk < end; ++chunk) {
            copy(chunk + 1);
#ifdef HAS_MATRIX_PRODUCTS
            wait_for_former_copies();
#endif
            __syncthreads();
            const u32 *const at = shared + (chunk - first) % 2 * (2 * SIDE_WORDS);
            tile.add(at, at + SIDE_WORDS);
            // All warps have read the chunk.
            __syncthreads();
        }
        tile.give(work, row, column);
    }
}
