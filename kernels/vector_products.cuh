// The filter by products of halves of warps. A block has 128 rows and stages of 128 columns, a warp 32
// rows and 64 columns of them; two steps a time come to shared memory while those before are
// multiplied.
#pragma once

#include "half_products.cuh"
#include "vector_units.cuh"

#ifdef HAS_MATRIX_PRODUCTS
struct ProductTile {
    static constexpr u32 THREADS = 256;
    static constexpr u32 ROWS = 128;
    static constexpr u32 COLUMNS = 128;
    // Of a warp: two tiles of 16 rows, eight of eight columns.
    static constexpr u32 WARP_ROWS = 32;
    static constexpr u32 WARP_COLUMNS = 64;
    // Steps, and chunks, in shared memory at a time.
    static constexpr u32 STEPS = 2;
    static constexpr u32 CHUNKS = STEPS * STEP_CHUNKS;

    // In octets of CHUNKS chunks a vector.
    uint4 rows[ROWS * CHUNKS];
    uint4 columns[COLUMNS * CHUNKS];

    // Begins the copies of the steps from `step` on, as far as there are any.
    __device__ __forceinline__ void copy(const VectorWork &work, u32 first_row, u32 first_column, u32 step) {
        for (u32 i = threadIdx.x; i < ROWS * CHUNKS; i += THREADS) {
            const u32 vector = i / (OCTET * CHUNKS) * OCTET + i % OCTET;
            const u32 chunk = step * STEP_CHUNKS + i / OCTET % CHUNKS;
            if (chunk < work.steps * STEP_CHUNKS) {
                copy_beside(&rows[i], static_cast<const uint4 *>(row_chunk(work, first_row + vector, chunk)));
                copy_beside(&columns[i], static_cast<const uint4 *>(column_chunk(work, first_column + vector, chunk)));
            }
        }
    }

    // A word of a chunk of an octet, by lane.
    __device__ __forceinline__ static u32 word(const uint4 *vectors, u32 octet, u32 chunk) {
        return reinterpret_cast<const u32 *>(vectors)[(octet * CHUNKS + chunk) * WARP + lane_id()];
    }
};

// The sums of a warp: of two tiles of rows and eight octets of columns.
struct ProductSums {
    float sums[2][8][4] = {};

    __device__ __forceinline__ void add(const ProductTile &tile, u32 first_row, u32 first_column, u32 step) {
        u32 rows[2][4];
#pragma unroll
        for (u32 t = 0; t < 2; ++t) {
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                rows[t][i] = ProductTile::word(tile.rows, first_row / OCTET + 2 * t + i % 2, 2 * step + i / 2);
            }
        }
#pragma unroll
        for (u32 octet = 0; octet < 8; ++octet) {
            u32 columns[2];
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                columns[i] = ProductTile::word(tile.columns, first_column / OCTET + octet, 2 * step + i);
            }
#pragma unroll
            for (u32 t = 0; t < 2; ++t) {
                add_halves_of_warp(sums[t][octet], rows[t], columns);
            }
        }
    }

    // Of the lane's row `half` of tile `t`: the pairs that pass, and those above `bound`.
    __device__ __forceinline__ void test(u32 t, u32 half, float bound, u32 &open, u32 &sure) const {
#pragma unroll
        for (u32 i = 0; i < 16; ++i) {
            const float sum = sums[t][i / 2][2 * half + i % 2];
            open |= static_cast<u32>(sum >= 0) << i;
            sure |= static_cast<u32>(sum > bound) << i;
        }
    }
};

__device__ __forceinline__ void filter_by_products(const VectorWork &work) {
    using Tile = ProductTile;
    __shared__ OpenUnit<Tile::ROWS> unit;
    __shared__ Tile tiles[2];
    const u32 first_row = warp_id() / 2 * Tile::WARP_ROWS;
    const u32 first_column = warp_id() % 2 * Tile::WARP_COLUMNS;
    test_units(work, unit, Tile::THREADS, [&](HitRoom &room, u32 stage) {
        const u32 of_stage = work.stage_of(unit.unit, stage);
        const auto copy = [&](u32 step) {
            tiles[step / Tile::STEPS % 2].copy(work, unit.unit.first_row, of_stage * Tile::COLUMNS, step);
            end_copies();
        };
        ProductSums products;
        copy(0);
        for (u32 step = 0; step < work.steps; step += Tile::STEPS) {
            copy(step + Tile::STEPS);
            wait_for_former_copies();
            __syncthreads();
            const Tile &tile = tiles[step / Tile::STEPS % 2];
            products.add(tile, first_row, first_column, 0);
            if (step + 1 < work.steps) {
                products.add(tile, first_row, first_column, 1);
            }
            // All warps have read the tile.
            __syncthreads();
        }
        const float stage_sure = work.stage_sure[of_stage - work.columns.first / Tile::COLUMNS];
        const u32 row = first_row + lane_id() / 4;
        const u32 column = stage * Tile::COLUMNS + first_column;
        const u32 of_columns = of_stage * Tile::COLUMNS + first_column;
        // By the lane's rows.
        u32 open[4] = {};
        u32 sure[4] = {};
        u32 clipped = 0;
#pragma unroll
        for (u32 word = 0; word < 4; ++word) {
            products.test(word / 2, word % 2, unit.bound[row + word * OCTET] + stage_sure, open[word], sure[word]);
            clipped |= unit.clips(row + word * OCTET, of_columns, Tile::WARP_COLUMNS) ? 1u << word : 0;
        }
        if (__any_sync(ALL_LANES, (open[0] | open[1] | open[2] | open[3]) != 0)) {
            const u32 place = lane_id() % 4;
            room.give(work, unit, open, sure, clipped, [=](u32 word, u32 bit) {
                return (row + word * OCTET) << 16 | (column + bit / 2 * OCTET + 2 * place + bit % 2);
            });
        }
    });
}
#endif
