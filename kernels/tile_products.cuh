// Tiles by one-bit matrix products of warps. A warp keeps up to 128 rows in registers. The bound of
// each row is what its products are added to, so that a pair passes where the sum is not negative:
// one three-input AND for two pairs tells whether any does.
#pragma once

#include "matrix.cuh"
#include "signatures.cuh"
#include "tile_units.cuh"

// For signatures of STEPS * 256 bits.
template <u32 STEPS>
struct ProductShape {
    static constexpr u32 WARPS = 4;
    static constexpr u32 THREADS = WARPS * WARP;
    static constexpr u32 WIDTH = 8 * STEPS;
    // Tiles of 16 rows that a warp keeps: 4 * STEPS registers each, and no more than 64 in all, so that
    // three blocks fit on a multiprocessor.
    static constexpr u32 KEPT = STEPS == 4 ? 4 : 8;
    static constexpr u32 ROWS = WARPS * KEPT * 16;
    static constexpr u32 COLUMNS = 128;
    static constexpr u32 QUADS = COLUMNS * WIDTH / 4;
};

#ifdef HAS_MATRIX_PRODUCTS
template <u32 STEPS>
__device__ __forceinline__ void tile_by_products(const TileWork &work) {
    using Shape = ProductShape<STEPS>;
    constexpr u32 WIDTH = Shape::WIDTH;
    DYNAMIC_SHARED(room);
    __shared__ u32 shared[MAX_STAGES + 1];
    __shared__ uint4 columns[2][Shape::QUADS];
    BlockUnit unit(work, room, shared);
    const u32 group = lane_id() / 4;
    const u32 place = lane_id() % 4;
    const auto load = [&](u32 stage, u32 turn) {
        if (stage < unit.unit.stages) {
            const uint4 *words = reinterpret_cast<const uint4 *>(unit.words(stage));
            for (u32 i = threadIdx.x; i < Shape::QUADS; i += Shape::THREADS) {
                copy_beside(&columns[turn][i], &words[i]);
            }
        }
        end_copies();
    };
    while (unit.take()) {
        u32 stage = unit.next(0);
        load(stage, 0);
        const u32 first = warp_id() * Shape::KEPT * 16;
        u32 rows[Shape::KEPT][STEPS][4];
        int slack[Shape::KEPT][2];
#pragma unroll
        for (u32 kept = 0; kept < Shape::KEPT; ++kept) {
            const u32 row = unit.strip.first + first + kept * 16;
            const u32 *octet = work.rows.words + u64{row / OCTET} * (OCTET * WIDTH) + lane_id();
#pragma unroll
            for (u32 step = 0; step < STEPS; ++step) {
                rows[kept][step][0] = __ldg(octet + step * 64);
                rows[kept][step][1] = __ldg(octet + step * 64 + OCTET * WIDTH);
                rows[kept][step][2] = __ldg(octet + step * 64 + 32);
                rows[kept][step][3] = __ldg(octet + step * 64 + 32 + OCTET * WIDTH);
            }
            slack[kept][0] = unit.slack_of(row + group);
            slack[kept][1] = unit.slack_of(row + OCTET + group);
        }
        for (u32 turn = 0; stage < unit.unit.stages; turn ^= 1) {
            const u32 next = unit.next(stage + 1);
            load(next, turn ^ 1);
            int bound[Shape::KEPT][4];
#pragma unroll
            for (u32 kept = 0; kept < Shape::KEPT; ++kept) {
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    bound[kept][2 * half] = slack[kept][half] - unit.threshold(stage);
                    bound[kept][2 * half + 1] = bound[kept][2 * half];
                }
            }
            wait_for_former_copies();
            __syncthreads();
            const u32 *words = reinterpret_cast<const u32 *>(columns[turn]);
#pragma unroll 1
            for (u32 octet = 0; octet < Shape::COLUMNS / OCTET; ++octet) {
                u32 column[STEPS][2];
#pragma unroll
                for (u32 step = 0; step < STEPS; ++step) {
                    column[step][0] = words[octet * OCTET * WIDTH + step * 64 + lane_id()];
                    column[step][1] = words[octet * OCTET * WIDTH + step * 64 + 32 + lane_id()];
                }
                int sums[Shape::KEPT][4];
                int negative = -1;
#pragma unroll
                for (u32 kept = 0; kept < Shape::KEPT; ++kept) {
                    count_common(sums[kept], bound[kept], rows[kept][0], column[0][0], column[0][1]);
#pragma unroll
                    for (u32 step = 1; step < STEPS; ++step) {
                        count_common(sums[kept], sums[kept], rows[kept][step], column[step][0], column[step][1]);
                    }
                }
#pragma unroll
                for (u32 kept = 0; kept < Shape::KEPT; ++kept) {
                    negative &= sums[kept][0] & sums[kept][1];
                    negative &= sums[kept][2] & sums[kept][3];
                }
                if (negative >= 0) {
                    const u32 at = stage * Shape::COLUMNS + octet * OCTET + 2 * place;
#pragma unroll
                    for (u32 kept = 0; kept < Shape::KEPT; ++kept) {
                        const u32 row = first + kept * 16 + group;
#pragma unroll
                        for (u32 i = 0; i < 4; ++i) {
                            if (sums[kept][i] >= 0) {
                                unit.push(row + i / 2 * OCTET, at + i % 2);
                            }
                        }
                    }
                }
                __syncwarp();
            }
            // All warps have read the stage.
            __syncthreads();
            stage = next;
        }
        unit.finish();
    }
}
#endif
