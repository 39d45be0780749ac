// The filter by products of halves of warps where boxes around few vectors say which pairs of them can
// match: self-joins of vectors of few dimensions.
//
// A warp keeps a block of 64 rows in registers. It compares the boxes of the stages of a unit with its own,
// a lane for each; of stages in reach the boxes of their blocks of 64 columns; of blocks in reach the boxes
// of four groups of 16 columns with those of its four groups of rows, a lane for each pair. Groups in reach
// are multiplied.
// Columns are read where they lie, as warps of a block read the same ones at about the same time. Products
// are those of warps on all devices, and bounds are prepared for their rounding.
#pragma once

#include "half_products.cuh"
#include "vector_units.cuh"

#ifdef HAS_MATRIX_PRODUCTS
// Groups of 16 vectors in a block; boxes that lie side by side.
constexpr u32 BOX_FANOUT = 4;
constexpr u32 BOX_GROUP = 16;
constexpr u32 BOX_BLOCK = BOX_GROUP * BOX_FANOUT;
// Of which a warp compares all blocks at once.
constexpr u32 BOX_STAGE = BOX_BLOCK * WARP;
// Of four coordinates each.
constexpr u32 MOST_BOX_CHUNKS = 4;
// Warps of a block, and so blocks of a strip.
constexpr u32 BOXED_WARPS = 8;

// Four coordinates of the ends of boxes.
struct alignas(16) BoxEnds {
    float ends[4];

    __device__ __forceinline__ static BoxEnds load(const BoxEnds *from) {
        const uint4 quad = *reinterpret_cast<const uint4 *>(from);
        return BoxEnds{{__uint_as_float(quad.x), __uint_as_float(quad.y), __uint_as_float(quad.z),
                        __uint_as_float(quad.w)}};
    }
};

// Whether the boxes with number `a % 4` of four and `b % 4` of four are in reach of each other. Chunks of
// each four: the lower ends of each, then the upper ones.
__device__ __forceinline__ bool are_in_reach(const VectorBoxes &boxes, const BoxEnds *a, const BoxEnds *b) {
    float sum = 0;
#pragma unroll 2
    for (u32 chunk = 0; chunk < boxes.chunks; ++chunk) {
        const BoxEnds low_a = BoxEnds::load(a + chunk * (2 * BOX_FANOUT));
        const BoxEnds high_a = BoxEnds::load(a + chunk * (2 * BOX_FANOUT) + BOX_FANOUT);
        const BoxEnds low_b = BoxEnds::load(b + chunk * (2 * BOX_FANOUT));
        const BoxEnds high_b = BoxEnds::load(b + chunk * (2 * BOX_FANOUT) + BOX_FANOUT);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const float gap = fmaxf(fmaxf(low_b.ends[i] - high_a.ends[i], low_a.ends[i] - high_b.ends[i]), 0.0f);
            sum += gap * gap;
        }
    }
    // Of what is no number nothing is known.
    return !(sum > boxes.limit);
}

// What the warps of a block share.
struct BoxedShared {
    OpenUnit<BOXED_WARPS * BOX_BLOCK> unit;
    // By warp, of its rows: the boxes of the groups, and that of the block as the first of four.
    BoxEnds groups[BOXED_WARPS][MOST_BOX_CHUNKS * 2 * BOX_FANOUT];
    BoxEnds blocks[BOXED_WARPS][MOST_BOX_CHUNKS * 2 * BOX_FANOUT];
};

// A lane's halves of 16 columns: it has 4 * place up to 4 * place + 3 of columns `group` and `group` + 8
// (lane = 4 * group + place). Rows have theirs in the same places.
template <u32 STEPS>
struct ColumnFragments {
    u32 words[STEPS][2][2];

    // Where those of step 0 lie in an octet, in words.
    __device__ __forceinline__ static u32 place() {
        const u32 place = lane_id() % 4;
        return place / 2 * WARP + lane_id() / 4 * 4 + place % 2 * 2;
    }

    // `from`: the place in the first octet of the columns.
    __device__ __forceinline__ void load(const u32 *from) {
#pragma unroll
        for (u32 step = 0; step < STEPS; ++step) {
#pragma unroll
            for (u32 octet = 0; octet < 2; ++octet) {
                const uint2 pair = __ldg(reinterpret_cast<const uint2 *>(from + (octet * STEPS + step) * (2 * WARP)));
                words[step][octet][0] = pair.x;
                words[step][octet][1] = pair.y;
            }
        }
    }
};

template <u32 STEPS>
struct BoxedWarp {
    const VectorWork &work;
    BoxedShared &shared;
    HitRoom room;
    // Of the warp's rows; the lane's first one in the strip.
    u32 rows[STEPS][BOX_FANOUT][4];
    u32 row;
    // Pairs of groups that were multiplied.
    u32 tested = 0;

    __device__ __forceinline__ BoxedWarp(const VectorWork &work, BoxedShared &shared)
        : work(work), shared(shared), row(warp_id() * BOX_BLOCK + lane_id() / 4) {}

    // Tests the rows of the warp against the columns of the unit.
    __device__ __forceinline__ void test_unit() {
        const VectorUnit unit = shared.unit.unit;
        const u32 own = (unit.first_row - work.columns.first) / BOX_BLOCK + warp_id();
        load(own);
        const u32 base = work.columns.first / BOX_STAGE;
        for (u32 first = 0; first < unit.stages; first += WARP) {
            const u32 place = first + lane_id();
            const bool is_one = place < unit.stages;
            const u32 stage = is_one ? work.stage_of(unit, place) - base : 0;
            u32 mask = near_blocks(is_one && !(work.same && stage < own / WARP), work.boxes.stages, stage);
            while (mask != 0) {
                const u32 at = take_lowest(mask);
                test_stage(own, __shfl_sync(ALL_LANES, stage, static_cast<int>(at)), first + at);
            }
        }
    }

    // By all lanes of a warp.
    __device__ __forceinline__ void settle() {
        room.settle(shared.unit);
        if (lane_id() == 0) {
            atomicAdd(&shared.unit.tested, tested);
        }
        tested = 0;
    }

private:
    // The place of the lowest bit, which it clears.
    __device__ __forceinline__ static u32 take_lowest(u32 &mask) {
        const u32 place = static_cast<u32>(__ffs(static_cast<int>(mask))) - 1;
        mask &= mask - 1;
        return place;
    }

    // The lanes with a box, `number` of those from `boxes` on, that is in reach of the block of rows.
    __device__ __forceinline__ u32 near_blocks(bool has_one, const void *boxes, u32 number) const {
        bool near = has_one;
        if (near) {
            const u64 four = u64{number / BOX_FANOUT} * (work.boxes.chunks * 2 * BOX_FANOUT);
            const BoxEnds *box = static_cast<const BoxEnds *>(boxes) + four + number % BOX_FANOUT;
            near = are_in_reach(work.boxes, shared.blocks[warp_id()], box);
        }
        return __ballot_sync(ALL_LANES, near);
    }

    // Tests block `own` against a stage, which is at a place of the unit.
    __device__ __forceinline__ void test_stage(u32 own, u32 stage, u32 place) {
        const u32 block = stage * WARP + lane_id();
        u32 mask = near_blocks(!(work.same && block < own), work.boxes.blocks, block);
        while (mask != 0) {
            // Two blocks a time.
            const u32 one = take_lowest(mask);
            const u32 other = mask != 0 ? take_lowest(mask) : WARP;
            test_blocks(stage * WARP, place * WARP, one, other);
        }
    }

    // Loads the rows of block `own`, and their boxes.
    __device__ __forceinline__ void load(u32 own) {
        const u32 width = work.boxes.chunks * 2 * BOX_FANOUT;
        __syncwarp();
        if (lane_id() < width) {
            const BoxEnds *groups = static_cast<const BoxEnds *>(work.boxes.groups) + u64{own} * width;
            shared.groups[warp_id()][lane_id()] = BoxEnds::load(groups + lane_id());
            if (lane_id() % BOX_FANOUT == 0) {
                const BoxEnds *blocks = static_cast<const BoxEnds *>(work.boxes.blocks) + u64{own / BOX_FANOUT} * width;
                shared.blocks[warp_id()][lane_id()] = BoxEnds::load(blocks + lane_id() + own % BOX_FANOUT);
            }
        }
        __syncwarp();
        const u64 octet = u64{shared.unit.unit.first_row - work.rows.first + warp_id() * BOX_BLOCK} / OCTET;
#pragma unroll
        for (u32 group = 0; group < BOX_FANOUT; ++group) {
#pragma unroll
            for (u32 step = 0; step < STEPS; ++step) {
                // The last step lies in the tails.
                const bool is_last = step == STEPS - 1;
                const u32 stride = is_last ? 2 * WARP : STEPS * 2 * WARP;
                const u32 *numbers = static_cast<const u32 *>(work.rows.numbers) + step * (2 * WARP);
                const u32 *from = is_last ? static_cast<const u32 *>(work.rows.tails) : numbers;
                from += (octet + 2 * group) * stride + ColumnFragments<STEPS>::place();
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    const uint2 pair = __ldg(reinterpret_cast<const uint2 *>(from + half * stride));
                    rows[step][group][half] = pair.x;
                    rows[step][group][2 + half] = pair.y;
                }
            }
        }
    }

    // Tests blocks `one` and `other` of a stage (WARP: there is no other) whose first block is `block`, and
    // `first` in the unit.
    __device__ __forceinline__ void test_blocks(u32 block, u32 first, u32 one, u32 other) {
        const u32 width = work.boxes.chunks * 2 * BOX_FANOUT;
        const u32 from = lane_id() < WARP / 2 ? one : other;
        // Of the two halves of the lanes.
        const u32 blocks[2] = {block + one, block + other % WARP};
        bool near = from != WARP;
        if (near) {
            const BoxEnds *groups = static_cast<const BoxEnds *>(work.boxes.groups);
            groups += u64{lane_id() < WARP / 2 ? blocks[0] : blocks[1]} * width + lane_id() / BOX_FANOUT % BOX_FANOUT;
            near = are_in_reach(work.boxes, &shared.groups[warp_id()][lane_id() % BOX_FANOUT], groups);
        }
        // Four bits for each group of columns.
        u32 mask = __ballot_sync(ALL_LANES, near);
        tested += static_cast<u32>(__popc(mask));
        if (mask == 0) {
            return;
        }
        const u32 *numbers = static_cast<const u32 *>(work.columns.numbers) + ColumnFragments<STEPS>::place();
        const auto group_at = [&](u32 at) {
            return (at / BOX_FANOUT ? blocks[1] : blocks[0]) * BOX_FANOUT + at % BOX_FANOUT;
        };
        u32 at = (static_cast<u32>(__ffs(static_cast<int>(mask))) - 1) / BOX_FANOUT;
        ColumnFragments<STEPS> columns;
        columns.load(numbers + u64{group_at(at)} * (STEPS * 4 * WARP));
        while (true) {
            const u32 near_rows = mask >> at * BOX_FANOUT & 15;
            mask &= ~(15u << at * BOX_FANOUT);
            const u32 following = (static_cast<u32>(__ffs(static_cast<int>(mask))) - 1) / BOX_FANOUT;
            ColumnFragments<STEPS> ahead;
            if (mask != 0) {
                ahead.load(numbers + u64{group_at(following)} * (STEPS * 4 * WARP));
            }
            const u32 of_unit = (first + (at / BOX_FANOUT ? other : one)) * BOX_FANOUT + at % BOX_FANOUT;
            multiply(columns, near_rows, group_at(at), of_unit);
            if (mask == 0) {
                break;
            }
            at = following;
            columns = ahead;
        }
    }

    __device__ __forceinline__ void products(float (&sums)[2][4], const ColumnFragments<STEPS> &columns,
                                             u32 group) const {
#pragma unroll
        for (u32 octet = 0; octet < 2; ++octet) {
            begin_halves_of_warp(sums[octet], rows[0][group], columns.words[0][octet]);
#pragma unroll
            for (u32 step = 1; step < STEPS; ++step) {
                add_halves_of_warp(sums[octet], rows[step][group], columns.words[step][octet]);
            }
        }
    }

    // Tests the groups of rows in `near_rows` against group `group` of the columns, group `of_unit` of the
    // unit.
    __device__ __forceinline__ void multiply(const ColumnFragments<STEPS> &columns, u32 near_rows, u32 group,
                                             u32 of_unit) {
        u32 below = ~0u;
#pragma unroll
        for (u32 i = 0; i < BOX_FANOUT; ++i) {
            if (near_rows >> i & 1) {
                float sums[2][4];
                products(sums, columns, i);
#pragma unroll
                for (u32 octet = 0; octet < 2; ++octet) {
                    below &= __float_as_uint(sums[octet][0]) & __float_as_uint(sums[octet][1]);
                    below &= __float_as_uint(sums[octet][2]) & __float_as_uint(sums[octet][3]);
                }
            }
        }
        if (!__any_sync(ALL_LANES, static_cast<int>(below) >= 0)) {
            return;
        }
        // Few get here: multiplied again, their sums need no registers above.
        const float of_stage = __ldg(&work.stage_sure[group / (BOX_STAGE / BOX_GROUP)]);
        u32 open[1] = {};
        u32 sure[1] = {};
        u32 clipped = 0;
        const u32 first_column = work.columns.first + group * BOX_GROUP;
#pragma unroll
        for (u32 i = 0; i < BOX_FANOUT; ++i) {
            if (near_rows >> i & 1) {
                float sums[2][4];
                products(sums, columns, i);
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    const u32 place = row + i * BOX_GROUP + half * OCTET;
                    const float bound = shared.unit.bound[place] + of_stage;
                    clipped |= static_cast<u32>(shared.unit.clips(place, first_column, BOX_GROUP));
#pragma unroll
                    for (u32 j = 0; j < 4; ++j) {
                        const float sum = sums[j / 2][2 * half + j % 2];
                        open[0] |= (~__float_as_uint(sum) >> 31) << (i * 8 + half * 4 + j);
                        sure[0] |= (__float_as_uint(bound - sum) >> 31) << (i * 8 + half * 4 + j);
                    }
                }
            }
        }
        const u32 of_lane = row;
        room.give(work, shared.unit, open, sure, clipped, [=](u32, u32 bit) {
            const u32 of_row = of_lane + bit / 4 * OCTET;
            return of_row << 16 | (of_unit * BOX_GROUP + bit / 2 % 2 * OCTET + 2 * (lane_id() % 4) + bit % 2);
        });
    }
};

// For vectors of STEPS steps.
template <u32 STEPS>
__device__ __forceinline__ void filter_boxed_rows(const VectorWork &work) {
    __shared__ BoxedShared shared;
    BoxedWarp<STEPS> warp(work, shared);
    const auto test = [&] {
        warp.test_unit();
        warp.settle();
    };
    walk_units(work, shared.unit, BOXED_WARPS * WARP, test,
               [&] { return u64{shared.unit.tested} * (BOX_GROUP * BOX_GROUP); });
    warp.room.close(work);
}
#endif
