// The filter by products of threads, for devices without matrix instructions on halves, and the form
// that the others are held to. A block has 64 rows and stages of 64 columns, a thread eight rows and
// four columns of them.
#pragma once

#include "vector_units.cuh"

struct PlainShape {
    static constexpr u32 THREADS = 128;
    static constexpr u32 ROWS = 64;
    static constexpr u32 COLUMNS = 64;
    static constexpr u32 THREAD_ROWS = 8;
    static constexpr u32 THREAD_COLUMNS = 4;
};

// A chunk of the rows and columns of a block, as floats.
struct PlainTile {
    float rows[CHUNK_HALVES][PlainShape::ROWS];
    float columns[CHUNK_HALVES][PlainShape::COLUMNS];
};

// Sums of products of a thread's rows and columns. Chunk by chunk, as the error in vector_bounds.cuh
// says.
struct PlainSums {
    float sums[PlainShape::THREAD_ROWS][PlainShape::THREAD_COLUMNS] = {};

    __device__ __forceinline__ void add(const PlainTile &tile, u32 first_row, u32 first_column) {
        float parts[PlainShape::THREAD_ROWS][PlainShape::THREAD_COLUMNS] = {};
#pragma unroll
        for (u32 k = 0; k < CHUNK_HALVES; ++k) {
#pragma unroll
            for (u32 i = 0; i < PlainShape::THREAD_ROWS; ++i) {
#pragma unroll
                for (u32 j = 0; j < PlainShape::THREAD_COLUMNS; ++j) {
                    parts[i][j] = fmaf(tile.rows[k][first_row + i], tile.columns[k][first_column + j], parts[i][j]);
                }
            }
        }
#pragma unroll
        for (u32 i = 0; i < PlainShape::THREAD_ROWS; ++i) {
#pragma unroll
            for (u32 j = 0; j < PlainShape::THREAD_COLUMNS; ++j) {
                sums[i][j] += parts[i][j];
            }
        }
    }
};

__device__ __forceinline__ void filter_plainly(const VectorWork &work) {
    using Shape = PlainShape;
    __shared__ OpenUnit<Shape::ROWS> unit;
    __shared__ PlainTile tile;
    const u32 first_row = threadIdx.x / 16 * Shape::THREAD_ROWS;
    const u32 first_column = threadIdx.x % 16 * Shape::THREAD_COLUMNS;
    test_units(work, unit, Shape::THREADS, [&](HitRoom &room, u32 stage) {
        const u32 of_stage = work.stage_of(unit.unit, stage);
        PlainSums products;
        for (u32 chunk = 0; chunk < STEP_CHUNKS * work.steps; ++chunk) {
            const bool is_row = threadIdx.x < Shape::ROWS;
            const u32 place = threadIdx.x % Shape::ROWS;
            const void *from = is_row ? row_chunk(work, unit.unit.first_row + place, chunk)
                                      : column_chunk(work, of_stage * Shape::COLUMNS + place, chunk);
            const Chunk8 halves = Chunk8::load(from);
            __syncthreads();
#pragma unroll
            for (u32 k = 0; k < CHUNK_HALVES; ++k) {
                (is_row ? tile.rows[k] : tile.columns[k])[place] = halves.number(k);
            }
            __syncthreads();
            products.add(tile, first_row, first_column);
        }
        const float of_columns = work.stage_sure[of_stage - work.columns.first / Shape::COLUMNS];
        u32 open[1] = {};
        u32 sure[1] = {};
#pragma unroll
        for (u32 i = 0; i < Shape::THREAD_ROWS; ++i) {
            const float bound = unit.bound[first_row + i] + of_columns;
#pragma unroll
            for (u32 j = 0; j < Shape::THREAD_COLUMNS; ++j) {
                const u32 bit = i * Shape::THREAD_COLUMNS + j;
                open[0] |= static_cast<u32>(products.sums[i][j] >= 0) << bit;
                sure[0] |= static_cast<u32>(products.sums[i][j] > bound) << bit;
            }
        }
        if (__any_sync(ALL_LANES, open[0] != 0)) {
            room.give(work, unit, open, sure, 1, [&](u32, u32 bit) {
                const u32 row = first_row + bit / Shape::THREAD_COLUMNS;
                return row << 16 | (stage * Shape::COLUMNS + first_column + bit % Shape::THREAD_COLUMNS);
            });
        }
    });
}
