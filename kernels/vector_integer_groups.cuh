// The filter by products of integers of warpgroups: as that of halves which keeps rows in registers
// (vector_warpgroups.cuh), but that sums begin with the terms of the columns, which lie behind these in
// a slot. The greatest sum of a row says whether any of its pairs may match.
#pragma once

#include "vector_integers.cuh"
#include "vector_warpgroups.cuh"

#ifdef HAS_WARPGROUP_PRODUCTS
// For vectors of STEPS steps.
template <u32 STEPS>
struct KeptIntegers {
    static constexpr u32 GROUPS = 2;
    static constexpr u32 WARPS = 4 * GROUPS;
    static constexpr u32 THREADS = (GROUPS + 1) * WARPGROUP;
    // Two tiles of 64 for each.
    static constexpr u32 ROWS = GROUPS * 2 * 64;
    static constexpr u32 COPIES = 2;
    // Words of the columns in a slot, and of all of it.
    static constexpr u32 COLUMNS = HALF_COLUMNS * STEPS * 8;
    static constexpr u32 SLOT = COLUMNS + HALF_COLUMNS;
    // 220 of the 227 KiB that a block may have.
    static constexpr u32 MOST_WORDS = 55 * 1024;
    static constexpr u32 SLOTS = MOST_WORDS / SLOT < 8 ? MOST_WORDS / SLOT : 8;

    __device__ __forceinline__ static u32 blocks(const VectorWork &) { return 1; }

    __device__ __forceinline__ static void copy(const VectorWork &work, Gate &full, u32 *slot, u32, u32, u32 stage) {
        const u32 column = stage * HALF_COLUMNS - work.columns.first;
        const u32 *numbers = static_cast<const u32 *>(work.columns.numbers) + u64{column} * (STEPS * 8);
        full.copy(slot, numbers, COLUMNS * sizeof(u32));
        full.copy(slot + COLUMNS, terms_of(work.columns, STEPS) + column, HALF_COLUMNS * sizeof(int));
    }
};

// 16 rows of a warp in registers, out of a tile of 64 that its warpgroup keeps.
template <u32 STEPS>
struct IntegerRows {
    u32 words[STEPS][4];
    // The lane's first row in the strip.
    u32 row;
    // Of that and of the one eight rows below it.
    SumBounds bounds[2];

    // Of tile `kept` of a strip.
    __device__ __forceinline__ void load(const VectorWork &work, u32 first_row, u32 kept) {
        const u32 of_warp = (kept * KeptIntegers<STEPS>::GROUPS + warp_id() / 4) * 64 + warp_id() % 4 * 16;
        const u32 vector = first_row + of_warp - work.rows.first;
        row = of_warp + lane_id() / 4;
        constexpr u32 OCTET_WORDS = STEPS * 64;
        const u32 *from =
            static_cast<const u32 *>(work.rows.numbers) + u64{vector / OCTET} * OCTET_WORDS + lane_id();
#pragma unroll
        for (u32 step = 0; step < STEPS; ++step) {
            words[step][0] = __ldg(from + step * 64);
            words[step][1] = __ldg(from + step * 64 + OCTET_WORDS);
            words[step][2] = __ldg(from + step * 64 + 32);
            words[step][3] = __ldg(from + step * 64 + OCTET_WORDS + 32);
        }
    }

    // Loads the bounds of the same rows.
    __device__ __forceinline__ void load_bounds(const VectorWork &work, u32 first_row) {
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            bounds[half] = sum_bounds_of(work.rows)[first_row + row - work.rows.first + half * OCTET];
        }
    }

    __device__ __forceinline__ void multiply(int (&sums)[HALF_SUMS], const u32 *slot) const {
        const auto *terms = reinterpret_cast<const int *>(slot + KeptIntegers<STEPS>::COLUMNS) + lane_id() % 4 * 2;
#pragma unroll
        for (u32 octet = 0; octet < HALF_COLUMNS / OCTET; ++octet) {
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                sums[4 * octet + i] = terms[octet * OCTET + i % 2];
            }
        }
        begin_products();
#pragma unroll
        for (u32 step = 0; step < STEPS; ++step) {
            add_integers(sums, words[step], SharedHalves{slot + step * 64, STEP_CHUNKS * STEPS});
        }
        end_products();
    }

    // Looks through the sums of 64 columns a time.
    __device__ __forceinline__ void look_through(const int (&sums)[HALF_SUMS], const SlotHeader &header,
                                                 Multiplier<KeptIntegers<STEPS>> &multiplier) const {
        int greatest[2][4];
#pragma unroll
        for (u32 part = 0; part < 4; ++part) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                int of_part = ABSENT_TERM;
#pragma unroll
                for (u32 octet = 0; octet < 8; ++octet) {
                    const u32 at = 32 * part + 4 * octet + 2 * half;
                    of_part = __vimax3_s32(of_part, sums[at], sums[at + 1]);
                }
                greatest[half][part] = of_part;
            }
        }
        bool any = false;
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const int of_row = __vimax3_s32(max(greatest[half][0], greatest[half][1]), greatest[half][2],
                                            greatest[half][3]);
            any |= of_row >= bounds[half].open;
        }
        if (!__any_sync(ALL_LANES, any)) {
            return;
        }
        // By half and half of the columns.
        u32 open[4] = {};
        u32 sure[4] = {};
#pragma unroll
        for (u32 part = 0; part < 4; ++part) {
            if (__any_sync(ALL_LANES, greatest[0][part] >= bounds[0].open || greatest[1][part] >= bounds[1].open)) {
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    u32 below = 0;
                    u32 unsure = 0;
#pragma unroll
                    for (u32 i = 16; i > 0; --i) {
                        const int sum = sums[32 * part + (i - 1) / 2 * 4 + 2 * half + (i - 1) % 2];
                        below = __funnelshift_l(static_cast<u32>(sum - bounds[half].open), below, 1);
                        unsure = __funnelshift_l(static_cast<u32>(sum - bounds[half].sure), unsure, 1);
                    }
                    open[2 * half + part / 2] |= (~below & 0xffff) << part % 2 * 16;
                    sure[2 * half + part / 2] |= (~unsure & 0xffff) << part % 2 * 16;
                }
            }
        }
        multiplier.give(row, header, open, sure);
    }
};

template <u32 STEPS>
__device__ __forceinline__ void filter_kept_integers(const VectorWork &work) {
    using Shape = KeptIntegers<STEPS>;
    ALIGNED_SHARED(ring);
    __shared__ WarpgroupShared<Shape> shared;
    shared.open();
    if (warp_id() >= Shape::WARPS) {
        leave_registers<40>();
        if (warp_id() == Shape::WARPS) {
            Feeder<Shape> feeder(work, shared, ring);
            while (!feeder.has_ended) {
                feeder.feed();
            }
        }
    } else {
        take_registers<232>();
        Multiplier<Shape> multiplier(work, shared);
        IntegerRows<STEPS> first;
        IntegerRows<STEPS> second;
        while (true) {
            multiplier.wait_for_slot();
            const SlotHeader header = shared.headers[multiplier.slot()];
            const bool has_turned = multiplier.turn_to(header.unit);
            // Also in a block that no unit was left for.
            if (header.unit == NO_UNIT) {
                break;
            }
            if (has_turned) {
                const u32 first_row = shared.unit.unit.first_row;
                first.load(work, first_row, 0);
                first.load_bounds(work, first_row);
                second.load(work, first_row, 1);
                second.load_bounds(work, first_row);
            }
            const u32 *slot = ring + multiplier.slot() * Shape::SLOT;
            int sums[HALF_SUMS];
            first.multiply(sums, slot);
            first.look_through(sums, header, multiplier);
            second.multiply(sums, slot);
            multiplier.leave_slot();
            second.look_through(sums, header, multiplier);
        }
        multiplier.room.close(work);
    }
}
#endif
