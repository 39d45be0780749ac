// Tiles by one-bit matrix products of warpgroups. Three warpgroups keep up to 256 rows each in
// registers; stages of 192 columns come through a ring in shared memory, copied by the bulk engine.
// The products write to registers at a rate at which every other instruction of the multiprocessor
// slows them down: a three-input maximum over 64 columns is the cheapest test of whether any passes.
#pragma once

#include "signatures.cuh"
#include "tile_units.cuh"
#include "warpgroup.cuh"

// For signatures of STEPS * 256 bits.
template <u32 STEPS>
struct WarpgroupShape {
    static constexpr u32 GROUPS = 3;
    static constexpr u32 WARPS = 4 * GROUPS;
    static constexpr u32 THREADS = WARPS * WARP;
    static constexpr u32 WIDTH = 8 * STEPS;
    // Tiles of 64 rows that a warpgroup keeps: 4 * STEPS registers each, 32 in all at most, beside the 96
    // sums of a product.
    static constexpr u32 KEPT = STEPS == 4 ? 2 : 4;
    static constexpr u32 ROWS = GROUPS * KEPT * 64;
    // Those of a product (warpgroup.cuh).
    static constexpr u32 COLUMNS = 192;
    // Stages in shared memory, 6 * STEPS KiB each: one is read while others are copied.
    static constexpr u32 RING = 4;
    // Words of a stage.
    static constexpr u32 STAGE = COLUMNS * WIDTH;
};

#ifdef HAS_WARPGROUP_PRODUCTS
// The maximum over the octets of columns first .. first + 8, of the lane's row (half 0) or of the row
// eight behind it (half 1).
template <u32 SUMS>
__device__ __forceinline__ int greatest_of_octets(const int (&sums)[SUMS], u32 first, u32 half) {
    int greatest = sums[4 * first + 2 * half];
#pragma unroll
    for (u32 i = 1; i + 1 < 16; i += 2) {
        greatest = __vimax3_s32(greatest, sums[4 * (first + i / 2) + 2 * half + i % 2],
                                sums[4 * (first + (i + 1) / 2) + 2 * half + (i + 1) % 2]);
    }
    return max(greatest, sums[4 * (first + 7) + 2 * half + 1]);
}

template <u32 STEPS>
__device__ __forceinline__ void tile_by_warpgroups(const TileWork &work) {
    using Shape = WarpgroupShape<STEPS>;
    constexpr u32 WIDTH = Shape::WIDTH;
    constexpr u32 OCTETS = Shape::COLUMNS / OCTET;
    ALIGNED_SHARED(ring);
    __shared__ u32 shared[MAX_STAGES + 1];
    __shared__ Gate full[Shape::RING];
    __shared__ Gate empty[Shape::RING];
    BlockUnit unit(work, ring + Shape::RING * Shape::STAGE, shared);
    const u32 group = lane_id() / 4;
    const u32 place = lane_id() % 4;
    // The first row of the warp within a tile of all warpgroups.
    const u32 warp_row = warp_id() / 4 * 64 + warp_id() % 4 * 16;
    if (threadIdx.x == 0) {
        for (u32 slot = 0; slot < Shape::RING; ++slot) {
            full[slot].open(1);
            empty[slot].open(Shape::WARPS);
        }
        publish_gates();
    }
    __syncthreads();
    // Stages of former units that went through the ring.
    u32 passed = 0;
    while (unit.take()) {
        u32 ahead = unit.next(0);
        u32 loaded = passed;
        const auto load = [&]() {
            if (ahead < unit.unit.stages) {
                if (warp_id() == 0) {
                    const u32 slot = loaded % Shape::RING;
                    empty[slot].wait((loaded / Shape::RING & 1) ^ 1);
                    if (lane_id() == 0) {
                        full[slot].copy(ring + slot * Shape::STAGE, unit.words(ahead), Shape::STAGE * sizeof(u32));
                    }
                    __syncwarp();
                }
                ++loaded;
                ahead = unit.next(ahead + 1);
            }
        };
        for (u32 i = 0; i < Shape::RING - 2; ++i) {
            load();
        }
        u32 rows[Shape::KEPT][STEPS][4];
        int slack[Shape::KEPT][2];
#pragma unroll
        for (u32 kept = 0; kept < Shape::KEPT; ++kept) {
            const u32 row = unit.strip.first + kept * Shape::GROUPS * 64 + warp_row;
            const u32 *octet = work.rows.words + u64{row / OCTET} * (OCTET * WIDTH) + lane_id();
#pragma unroll
            for (u32 step = 0; step < STEPS; ++step) {
                rows[kept][step][0] = __ldg(octet + step * 64);
                rows[kept][step][1] = __ldg(octet + step * 64 + OCTET * WIDTH);
                rows[kept][step][2] = __ldg(octet + step * 64 + 32);
                rows[kept][step][3] = __ldg(octet + step * 64 + 32 + OCTET * WIDTH);
            }
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                slack[kept][half] = unit.slack_of(row + half * OCTET + group);
            }
        }
        for (u32 stage = unit.next(0); stage < unit.unit.stages; stage = unit.next(stage + 1)) {
            load();
            const u32 slot = passed % Shape::RING;
            const u32 *columns = ring + slot * Shape::STAGE;
            const int threshold = unit.threshold(stage);
            full[slot].wait(passed / Shape::RING & 1);
#pragma unroll
            for (u32 kept = 0; kept < Shape::KEPT; ++kept) {
                int sums[PRODUCT_SUMS];
                begin_products();
#pragma unroll
                for (u32 step = 0; step < STEPS; ++step) {
                    add_product<WIDTH>(sums, rows[kept][step], columns + step * 64, step > 0);
                }
                end_products();
                const int needed[2] = {threshold - slack[kept][0], threshold - slack[kept][1]};
                int greatest[2][OCTETS / 8];
                bool passes = false;
#pragma unroll
                for (u32 part = 0; part < OCTETS / 8; ++part) {
#pragma unroll
                    for (u32 half = 0; half < 2; ++half) {
                        greatest[half][part] = greatest_of_octets(sums, 8 * part, half);
                    }
                }
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    passes |= __vimax3_s32(greatest[half][0], greatest[half][1], greatest[half][2]) >= needed[half];
                }
                if (__any_sync(ALL_LANES, passes)) {
                    const u32 row = kept * Shape::GROUPS * 64 + warp_row + group;
                    const u32 column = stage * Shape::COLUMNS + 2 * place;
#pragma unroll
                    for (u32 part = 0; part < OCTETS / 8; ++part) {
                        if (greatest[0][part] >= needed[0] || greatest[1][part] >= needed[1]) {
                            u32 mask = 0;
#pragma unroll
                            for (u32 i = 0; i < 32; ++i) {
                                mask |= static_cast<u32>(sums[32 * part + i] >= needed[i / 2 % 2]) << i;
                            }
                            while (mask != 0) {
                                const u32 i = static_cast<u32>(__ffs(static_cast<int>(mask))) - 1;
                                mask &= mask - 1;
                                unit.push(row + i / 2 % 2 * OCTET, column + (8 * part + i / 4) * OCTET + i % 2);
                            }
                        }
                    }
                    __syncwarp();
                }
            }
            // The warp has no product under way that reads the stage.
            if (lane_id() == 0) {
                empty[slot].arrive();
            }
            ++passed;
        }
        unit.finish();
    }
}
#endif
