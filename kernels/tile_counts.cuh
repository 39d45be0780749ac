// Tiles by population counts, for devices without matrix instructions on bits, and the form that the
// others are held to. A thread keeps some rows in registers; the columns of a stage, in shared
// memory, are read by all threads at a time.
#pragma once

#include "signatures.cuh"
#include "tile_units.cuh"

template <u32 WIDTH>
struct CountShape {
    static constexpr u32 THREADS = 64;
    // Rows of a thread: their signatures take 32 registers.
    static constexpr u32 EACH = 32 / WIDTH;
    static constexpr u32 ROWS = THREADS * EACH;
    // A word of hits for each row.
    static constexpr u32 COLUMNS = 32;
};

template <u32 WIDTH>
__device__ __forceinline__ void tile_by_counts(const TileWork &work) {
    using Shape = CountShape<WIDTH>;
    DYNAMIC_SHARED(room);
    __shared__ u32 shared[MAX_STAGES + 1];
    __shared__ uint4 columns[Shape::COLUMNS * WIDTH / 4];
    BlockUnit unit(work, room, shared);
    while (unit.take()) {
        uint4 bits[Shape::EACH][WIDTH / 4];
        int slack[Shape::EACH];
#pragma unroll
        for (u32 each = 0; each < Shape::EACH; ++each) {
            const u32 row = unit.strip.first + each * Shape::THREADS + threadIdx.x;
            slack[each] = unit.slack_of(row);
#pragma unroll
            for (u32 quad = 0; quad < WIDTH / 4; ++quad) {
                bits[each][quad] = *reinterpret_cast<const uint4 *>(work.rows.words + place_of(row, WIDTH, quad));
            }
        }
        for (u32 stage = unit.next(0); stage < unit.unit.stages; stage = unit.next(stage + 1)) {
            const uint4 *words = reinterpret_cast<const uint4 *>(unit.words(stage));
            __syncthreads();
            for (u32 i = threadIdx.x; i < Shape::COLUMNS * WIDTH / 4; i += Shape::THREADS) {
                columns[i] = words[i];
            }
            __syncthreads();
            const int threshold = unit.threshold(stage);
#pragma unroll 1
            for (u32 column = 0; column < Shape::COLUMNS; ++column) {
                int common[Shape::EACH] = {};
#pragma unroll
                for (u32 quad = 0; quad < WIDTH / 4; ++quad) {
                    const uint4 b = columns[place_of(column, WIDTH, quad) / 4];
#pragma unroll
                    for (u32 each = 0; each < Shape::EACH; ++each) {
                        const uint4 &a = bits[each][quad];
                        common[each] +=
                            __popc(a.x & b.x) + __popc(a.y & b.y) + __popc(a.z & b.z) + __popc(a.w & b.w);
                    }
                }
#pragma unroll
                for (u32 each = 0; each < Shape::EACH; ++each) {
                    if (common[each] + slack[each] >= threshold) {
                        unit.push(each * Shape::THREADS + threadIdx.x, stage * Shape::COLUMNS + column);
                    }
                }
            }
        }
        unit.finish();
    }
}
