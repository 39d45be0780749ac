// The filter by products of halves of warpgroups. Columns come through a ring of slots in shared memory,
// copied by the bulk engine: stages of 256 columns, as a whole against rows that stay in registers
// (vectors of up to nine steps), or in blocks of four steps with as much of 192 rows (longer ones).
//
// The warp that feeds the ring takes the units, and says with each stage whose it is. The sums of a
// lane are tested by their signs alone: a three-input AND for two of them.
#pragma once

#include "half_products.cuh"
#include "vector_units.cuh"

#ifdef HAS_WARPGROUP_PRODUCTS
constexpr u32 WARPGROUP = 4 * WARP;

// Whose the stage in a slot is, or NO_UNIT behind the last one.
struct SlotHeader {
    u32 unit;
    // Among those of the unit, and among all.
    u32 place;
    u32 stage;
    // The greatest of its columns.
    float sure;
};

// What the warps of a block share. A slot is filled by COPIES copies.
template <class Shape>
struct WarpgroupShared {
    OpenUnit<Shape::ROWS> unit;
    SlotHeader headers[Shape::SLOTS];
    Gate full[Shape::SLOTS];
    Gate empty[Shape::SLOTS];
    // Where the warps that multiply meet.
    Gate meeting;

    // By all threads of a block.
    __device__ __forceinline__ void open() {
        if (threadIdx.x == 0) {
            for (u32 slot = 0; slot < Shape::SLOTS; ++slot) {
                full[slot].open(Shape::COPIES);
                empty[slot].open(Shape::WARPS);
            }
            meeting.open(Shape::WARPS);
            publish_gates();
        }
        __syncthreads();
    }
};

// For vectors of STEPS steps: two warpgroups keep two tiles of 64 rows each in registers, a third one
// feeds.
//
// A thread has the 128 sums of a product, and of two tiles 8 * STEPS registers of rows: with a third
// multiplying warpgroup it would have 168 registers in place of 232, too few beyond a few steps.
template <u32 STEPS>
struct KeptRows {
    static constexpr u32 GROUPS = 2;
    static constexpr u32 WARPS = 4 * GROUPS;
    static constexpr u32 THREADS = (GROUPS + 1) * WARPGROUP;
    // Two tiles of 64 for each.
    static constexpr u32 ROWS = GROUPS * 2 * 64;
    static constexpr u32 COPIES = 1;
    // Words of a slot.
    static constexpr u32 SLOT = HALF_COLUMNS * STEPS * 8;
    // 216 of the 227 KiB of shared memory that a block may have: the rest holds bounds, headers and
    // gates. No more than eight slots: gates and headers are kept for each.
    static constexpr u32 MOST_WORDS = 27 * 2048;
    static constexpr u32 SLOTS = MOST_WORDS / SLOT < 8 ? MOST_WORDS / SLOT : 8;

    __device__ __forceinline__ static u32 blocks(const VectorWork &) { return 1; }

    __device__ __forceinline__ static void copy(const VectorWork &work, Gate &full, u32 *slot, u32, u32, u32 stage) {
        const u32 column = stage * HALF_COLUMNS - work.columns.first;
        full.copy(slot, static_cast<const u32 *>(work.columns.numbers) + u64{column} * (STEPS * 8), SLOT * sizeof(u32));
    }
};

// For longer vectors: three warpgroups with a tile of 64 rows each, the first warp feeds.
struct SharedRows {
    static constexpr u32 GROUPS = 3;
    static constexpr u32 WARPS = 4 * GROUPS;
    static constexpr u32 THREADS = GROUPS * WARPGROUP;
    static constexpr u32 ROWS = GROUPS * 64;
    static constexpr u32 COPIES = 2;
    // Words of a chunk of the rows and of the columns.
    static constexpr u32 ROW_CHUNK = ROWS * 4;
    static constexpr u32 COLUMN_CHUNK = HALF_COLUMNS * 4;
    static constexpr u32 SLOT = BLOCK_CHUNKS * (ROW_CHUNK + COLUMN_CHUNK);
    // 224 KiB, of the 227 that a block may have: 56 each.
    static constexpr u32 SLOTS = 4;

    // Blocks of a stage: the last step is one.
    __device__ __forceinline__ static u32 blocks(const VectorWork &work) { return (work.steps + 2) / 4 + 1; }

    __device__ __forceinline__ static void copy(const VectorWork &work, Gate &full, u32 *slot, u32 block, u32 row,
                                                u32 stage) {
        const u32 last = STEP_CHUNKS * (work.steps - 1);
        const bool is_last = block + 1 == blocks(work);
        const u32 chunk = is_last ? last : block * BLOCK_CHUNKS;
        const u32 width = is_last ? STEP_CHUNKS : min(BLOCK_CHUNKS, last - chunk);
        const HalfLayout of_rows(work.rows.padded, work.steps, 1);
        const HalfLayout of_columns(work.columns.padded, work.steps, 1);
        const u32 from_row = row - work.rows.first;
        const char *rows = is_last ? static_cast<const char *>(work.rows.tails) + HalfLayout::within(from_row, 0, width)
                                   : static_cast<const char *>(work.rows.numbers) + of_rows.place(from_row, chunk);
        const u32 column = stage * HALF_COLUMNS - work.columns.first;
        const char *columns = static_cast<const char *>(work.columns.numbers) + of_columns.place(column, chunk);
        full.copy(slot, rows, ROW_CHUNK * width * sizeof(u32));
        full.copy(slot + BLOCK_CHUNKS * ROW_CHUNK, columns, COLUMN_CHUNK * width * sizeof(u32));
    }
};

// Fills the ring, slot after slot. By all lanes of one warp.
template <class Shape>
struct Feeder {
    const VectorWork &work;
    WarpgroupShared<Shape> &shared;
    u32 *ring;
    VectorUnit unit{0, 0, 0};
    u32 number = 0;
    // The next stage, among those of the unit.
    u32 place = 0;
    u32 block = 0;
    u32 turn = 0;
    bool has_ended = false;
    // By lane, of the 32 stages around the next one.
    u32 stages = 0;
    float sure = 0;

    __device__ __forceinline__ Feeder(const VectorWork &work, WarpgroupShared<Shape> &shared, u32 *ring)
        : work(work), shared(shared), ring(ring) {}

    __device__ __forceinline__ void feed() {
        if (has_ended) {
            return;
        }
        while (place == unit.stages && !has_ended) {
            if (lane_id() == 0) {
                number = take_unit(work);
            }
            number = __shfl_sync(ALL_LANES, number, 0);
            has_ended = number == NO_UNIT;
            if (!has_ended) {
                unit = work.units[number];
                place = 0;
            }
        }
        if (block == 0 && place % WARP == 0 && !has_ended) {
            look_ahead();
        }
        const u32 stage = __shfl_sync(ALL_LANES, stages, place % WARP);
        const float of_stage = __shfl_sync(ALL_LANES, sure, place % WARP);
        const u32 slot = turn % Shape::SLOTS;
        shared.empty[slot].wait((turn / Shape::SLOTS & 1) ^ 1);
        if (lane_id() == 0) {
            Gate &full = shared.full[slot];
            if (has_ended) {
                shared.headers[slot] = SlotHeader{NO_UNIT, 0, 0, 0};
                for (u32 i = 0; i < Shape::COPIES; ++i) {
                    full.arrive();
                }
            } else {
                if (block == 0) {
                    shared.headers[slot] = SlotHeader{number, place, stage, of_stage};
                }
                Shape::copy(work, full, ring + slot * Shape::SLOT, block, unit.first_row, stage);
            }
        }
        __syncwarp();
        ++turn;
        if (++block == Shape::blocks(work)) {
            block = 0;
            ++place;
        }
    }

private:
    // Loads the numbers and bounds of the next 32 stages of the unit, one a lane.
    __device__ __forceinline__ void look_ahead() {
        if (place + lane_id() < unit.stages) {
            stages = work.stage_of(unit, place + lane_id());
            sure = __ldg(&work.stage_sure[stages - work.columns.first / HALF_COLUMNS]);
        }
    }
};

// A warp that multiplies.
template <class Shape>
struct Multiplier {
    const VectorWork &work;
    WarpgroupShared<Shape> &shared;
    HitRoom room;
    u32 current = NO_UNIT;
    // Slots taken, and meetings held.
    u32 turn = 0;
    u32 meetings = 0;

    __device__ __forceinline__ Multiplier(const VectorWork &work, WarpgroupShared<Shape> &shared)
        : work(work), shared(shared) {}

    __device__ __forceinline__ u32 slot() const { return turn % Shape::SLOTS; }

    __device__ __forceinline__ void wait_for_slot() const { shared.full[slot()].wait(turn / Shape::SLOTS & 1); }

    // The warp has no product under way that reads the slot.
    __device__ __forceinline__ void leave_slot() {
        if (lane_id() == 0) {
            shared.empty[slot()].arrive();
        }
        ++turn;
    }

    // Goes on to the unit of a header, if it is another one; whether it did.
    __device__ __forceinline__ bool turn_to(u32 unit) {
        if (unit == current) {
            return false;
        }
        if (current != NO_UNIT) {
            room.settle(shared.unit);
            meet();
            if (threadIdx.x == 0) {
                shared.unit.finish(work);
            }
        }
        if (unit != NO_UNIT) {
            shared.unit.begin(work, unit, threadIdx.x, Shape::WARPS * WARP);
            meet();
        }
        current = unit;
        return true;
    }

    // Looks through the sums of 64 columns a time. `row`: the lane's first row in the strip.
    __device__ __forceinline__ void look_through(const float (&sums)[HALF_SUMS], u32 row, const SlotHeader &header) {
        u32 below[2][4];
#pragma unroll
        for (u32 part = 0; part < 4; ++part) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                u32 all = ~0u;
#pragma unroll
                for (u32 octet = 0; octet < 8; ++octet) {
                    const u32 at = 32 * part + 4 * octet + 2 * half;
                    all &= __float_as_uint(sums[at]) & __float_as_uint(sums[at + 1]);
                }
                below[half][part] = all;
            }
        }
        const u32 all = below[0][0] & below[0][1] & below[0][2] & below[0][3] &
                        below[1][0] & below[1][1] & below[1][2] & below[1][3];
        if (!__any_sync(ALL_LANES, static_cast<int>(all) >= 0)) {
            return;
        }
        // By half and half of the columns.
        u32 open[4] = {};
        u32 sure[4] = {};
        const float bounds[2] = {shared.unit.bound[row] + header.sure, shared.unit.bound[row + OCTET] + header.sure};
#pragma unroll
        for (u32 part = 0; part < 4; ++part) {
            if (__any_sync(ALL_LANES, static_cast<int>(below[0][part] & below[1][part]) >= 0)) {
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    u32 negative = 0;
                    u32 above = 0;
#pragma unroll
                    for (u32 i = 16; i > 0; --i) {
                        const float sum = sums[32 * part + (i - 1) / 2 * 4 + 2 * half + (i - 1) % 2];
                        negative = __funnelshift_l(__float_as_uint(sum), negative, 1);
                        above = __funnelshift_l(__float_as_uint(bounds[half] - sum), above, 1);
                    }
                    open[2 * half + part / 2] |= (~negative & 0xffff) << part % 2 * 16;
                    sure[2 * half + part / 2] |= (above & 0xffff) << part % 2 * 16;
                }
            }
        }
        give(row, header, open, sure);
    }

    // Notes pairs of the lane's rows `row` and `row` + 8, by half and half of the columns: two of each
    // octet.
    __device__ __forceinline__ void give(u32 row, const SlotHeader &header, u32 (&open)[4], u32 (&sure)[4]) {
        const u32 column = header.place * HALF_COLUMNS;
        const u32 of_columns = header.stage * HALF_COLUMNS;
        u32 clipped = shared.unit.clips(row, of_columns, HALF_COLUMNS) ? 3 : 0;
        clipped |= shared.unit.clips(row + OCTET, of_columns, HALF_COLUMNS) ? 12 : 0;
        const u32 place = lane_id() % 4;
        room.give(work, shared.unit, open, sure, clipped, [=](u32 word, u32 bit) {
            const u32 octet = word % 2 * 16 + bit / 2;
            return (row + word / 2 * OCTET) << 16 | (column + octet * OCTET + 2 * place + bit % 2);
        });
    }

private:
    // Waits for all warps that multiply.
    __device__ __forceinline__ void meet() {
        __syncwarp();
        if (lane_id() == 0) {
            shared.meeting.arrive();
        }
        shared.meeting.wait(meetings & 1);
        ++meetings;
    }
};

// 16 rows of a warp in registers, out of a tile of 64 that its warpgroup keeps.
template <u32 STEPS>
struct RowFragments {
    u32 words[STEPS][4];
    // The lane's first row in the strip.
    u32 row;

    // Of tile `kept` of a strip.
    __device__ __forceinline__ void load(const VectorWork &work, u32 first_row, u32 kept) {
        const u32 of_warp = (kept * KeptRows<STEPS>::GROUPS + warp_id() / 4) * 64 + warp_id() % 4 * 16;
        const u64 octet = (first_row + of_warp - work.rows.first) / OCTET;
        row = of_warp + lane_id() / 4;
#pragma unroll
        for (u32 step = 0; step < STEPS; ++step) {
            // The last step lies in the tails.
            const bool is_last = step == STEPS - 1;
            const u32 stride = is_last ? 64 : STEPS * 64;
            const u32 *numbers = static_cast<const u32 *>(work.rows.numbers) + step * 64;
            const u32 *tails = static_cast<const u32 *>(work.rows.tails);
            const u32 *from = (is_last ? tails : numbers) + octet * stride + lane_id();
            words[step][0] = __ldg(from);
            words[step][1] = __ldg(from + stride);
            words[step][2] = __ldg(from + 32);
            words[step][3] = __ldg(from + stride + 32);
        }
    }

    __device__ __forceinline__ void multiply(float (&sums)[HALF_SUMS], const u32 *columns) const {
        begin_products();
#pragma unroll
        for (u32 step = 0; step < STEPS; ++step) {
            add_halves(sums, words[step], SharedHalves{columns + step * 64, STEP_CHUNKS * STEPS}, step > 0);
        }
        end_products();
    }
};

template <u32 STEPS>
__device__ __forceinline__ void filter_kept_rows(const VectorWork &work) {
    using Shape = KeptRows<STEPS>;
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
        RowFragments<STEPS> first;
        RowFragments<STEPS> second;
        while (true) {
            multiplier.wait_for_slot();
            const SlotHeader header = shared.headers[multiplier.slot()];
            const bool has_turned = multiplier.turn_to(header.unit);
            // Also in a block that no unit was left for.
            if (header.unit == NO_UNIT) {
                break;
            }
            if (has_turned) {
                first.load(work, shared.unit.unit.first_row, 0);
                second.load(work, shared.unit.unit.first_row, 1);
            }
            const u32 *columns = ring + multiplier.slot() * Shape::SLOT;
            float sums[HALF_SUMS];
            first.multiply(sums, columns);
            multiplier.look_through(sums, first.row, header);
            second.multiply(sums, columns);
            multiplier.leave_slot();
            multiplier.look_through(sums, second.row, header);
        }
        multiplier.room.close(work);
    }
}

// Adds the products of a block of STEPS steps, which is in the multiplier's slot; `FIRST`: in place of
// the sums.
template <u32 STEPS, bool FIRST>
__device__ __forceinline__ void add_block(float (&sums)[HALF_SUMS], Multiplier<SharedRows> &multiplier,
                                          const u32 *ring) {
    constexpr u32 WIDTH = STEP_CHUNKS * STEPS;
    const u32 *slot = ring + multiplier.slot() * SharedRows::SLOT;
    const u32 *rows = slot + warp_id() / 4 * (64 * 4 * WIDTH);
    const u32 *columns = slot + BLOCK_CHUNKS * SharedRows::ROW_CHUNK;
    begin_products();
#pragma unroll
    for (u32 step = 0; step < STEPS; ++step) {
        const SharedHalves of_columns{columns + step * 64, WIDTH};
        add_halves(sums, SharedHalves{rows + step * 64, WIDTH}, of_columns, !FIRST || step > 0);
    }
    end_products();
    multiplier.leave_slot();
}

__device__ __forceinline__ void filter_shared_rows(const VectorWork &work) {
    using Shape = SharedRows;
    ALIGNED_SHARED(ring);
    __shared__ WarpgroupShared<Shape> shared;
    shared.open();
    Feeder<Shape> feeder(work, shared, ring);
    const auto feed = [&]() {
        if (warp_id() == 0) {
            feeder.feed();
        }
    };
    for (u32 i = 0; i < Shape::SLOTS - 2; ++i) {
        feed();
    }
    Multiplier<Shape> multiplier(work, shared);
    const u32 whole = (work.steps - 1) / 4;
    const u32 rest = (work.steps - 1) % 4;
    const u32 row = warp_id() * 16 + lane_id() / 4;
    while (true) {
        feed();
        multiplier.wait_for_slot();
        const SlotHeader header = shared.headers[multiplier.slot()];
        multiplier.turn_to(header.unit);
        if (header.unit == NO_UNIT) {
            break;
        }
        float sums[HALF_SUMS];
        add_block<4, true>(sums, multiplier, ring);
#pragma unroll 1
        for (u32 block = 1; block < whole; ++block) {
            feed();
            multiplier.wait_for_slot();
            add_block<4, false>(sums, multiplier, ring);
        }
        if (rest > 0) {
            feed();
            multiplier.wait_for_slot();
            if (rest == 1) {
                add_block<1, false>(sums, multiplier, ring);
            } else if (rest == 2) {
                add_block<2, false>(sums, multiplier, ring);
            } else {
                add_block<3, false>(sums, multiplier, ring);
            }
        }
        feed();
        multiplier.wait_for_slot();
        add_block<1, false>(sums, multiplier, ring);
        multiplier.look_through(sums, row, header);
    }
    multiplier.room.close(work);
}
#endif
