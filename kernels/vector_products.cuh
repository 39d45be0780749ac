// The filter by products of warps, of halves or of integers (vector_integer_warps.cuh). A block has 128 rows and stages of 128 columns, a warp 32
// rows and 64 columns of them; two steps a time come to shared memory while those before are
// multiplied.
#pragma once

#include "half_products.cuh"
#include "vector_units.cuh"

#ifdef HAS_MATRIX_PRODUCTS
// Numbers of vectors, and what their sums say.
struct HalfNumbers {
    using Sum = float;
    // A pair that exceeds it matches.
    using Bounds = float;

    // What the sums of a column begin with.
    __device__ __forceinline__ static Sum first(const VectorWork &, u32) { return 0; }

    __device__ __forceinline__ static void add(Sum *sums, const u32 (&rows)[4], const u32 (&columns)[2]) {
        add_halves_of_warp(sums, rows, columns);
    }

    __device__ __forceinline__ static const void *of_row(const VectorWork &work, u32 row, u32 chunk) {
        return row_chunk(work, row, chunk);
    }

    // Of row `place` of a unit.
    template <class Unit>
    __device__ __forceinline__ static Bounds bounds(const VectorWork &, const Unit &unit, u32 place, float stage_sure) {
        return unit.bound[place] + stage_sure;
    }

    __device__ __forceinline__ static bool is_open(Sum sum, Bounds) { return sum >= 0; }
    __device__ __forceinline__ static bool is_sure(Sum sum, Bounds bounds) { return sum > bounds; }
};

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
    template <class Numbers>
    __device__ __forceinline__ void copy(const VectorWork &work, u32 first_row, u32 first_column, u32 step) {
        for (u32 i = threadIdx.x; i < ROWS * CHUNKS; i += THREADS) {
            const u32 vector = i / (OCTET * CHUNKS) * OCTET + i % OCTET;
            const u32 chunk = step * STEP_CHUNKS + i / OCTET % CHUNKS;
            if (chunk < work.steps * STEP_CHUNKS) {
                copy_beside(&rows[i], static_cast<const uint4 *>(Numbers::of_row(work, first_row + vector, chunk)));
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
template <class Numbers>
struct ProductSums {
    typename Numbers::Sum sums[2][8][4];

    // Of the columns from `column` on.
    __device__ __forceinline__ ProductSums(const VectorWork &work, u32 column) {
#pragma unroll
        for (u32 octet = 0; octet < 8; ++octet) {
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                const auto first = Numbers::first(work, column + octet * OCTET + lane_id() % 4 * 2 + i);
                sums[0][octet][i] = sums[0][octet][2 + i] = sums[1][octet][i] = sums[1][octet][2 + i] = first;
            }
        }
    }

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
                Numbers::add(sums[t][octet], rows[t], columns);
            }
        }
    }

    // Of the lane's row `half` of tile `t`: the pairs that may match, and those that do.
    __device__ __forceinline__ void test(u32 t, u32 half, typename Numbers::Bounds bounds, u32 &open,
                                         u32 &sure) const {
#pragma unroll
        for (u32 i = 0; i < 16; ++i) {
            const auto sum = sums[t][i / 2][2 * half + i % 2];
            open |= static_cast<u32>(Numbers::is_open(sum, bounds)) << i;
            sure |= static_cast<u32>(Numbers::is_sure(sum, bounds)) << i;
        }
    }
};

template <class Numbers>
__device__ __forceinline__ void filter_by_products(const VectorWork &work) {
    using Tile = ProductTile;
    __shared__ OpenUnit<Tile::ROWS> unit;
    __shared__ Tile tiles[2];
    const u32 first_row = warp_id() / 2 * Tile::WARP_ROWS;
    const u32 first_column = warp_id() % 2 * Tile::WARP_COLUMNS;
    test_units(work, unit, Tile::THREADS, [&](HitRoom &room, u32 stage) {
        const u32 of_stage = work.stage_of(unit.unit, stage);
        const auto copy = [&](u32 step) {
            tiles[step / Tile::STEPS % 2].template copy<Numbers>(work, unit.unit.first_row, of_stage * Tile::COLUMNS, step);
            end_copies();
        };
        const u32 of_columns = of_stage * Tile::COLUMNS + first_column;
        ProductSums<Numbers> products(work, of_columns);
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
        // By the lane's rows.
        u32 open[4] = {};
        u32 sure[4] = {};
        u32 clipped = 0;
#pragma unroll
        for (u32 word = 0; word < 4; ++word) {
            const auto bounds = Numbers::bounds(work, unit, row + word * OCTET, stage_sure);
            products.test(word / 2, word % 2, bounds, open[word], sure[word]);
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
