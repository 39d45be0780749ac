// Products of nearest vectors by warpgroups, and what becomes of the sums: the best of groups of columns, from
// which thresholds follow, or the pairs that pass the threshold of their row.
#pragma once

#include "nearest_bounds.cuh"
#include "vector_integer_groups.cuh"
#include "vector_warpgroups.cuh"

#ifdef HAS_WARPGROUP_PRODUCTS
// The lowest of three keys.
__device__ __forceinline__ u32 lowest_of(u32 a, u32 b, u32 c) {
#ifdef EMULATOR
    return min(min(a, b), c);
#else
    return __vimin3_u32(a, b, c);
#endif
}

// What makes the sums of a row c (nearest_bounds.cuh). That of halves has all of it.
template <class Sum>
struct SumsOfRow {
    float least;

    // The pairs that pass have a c of at least `least`.
    __device__ __forceinline__ void begin(const NearestWork &, u32, float of_row) { least = of_row; }

    __device__ __forceinline__ u32 key(float sum) const { return key_of(sum); }

    // Has the sign bit where a pair does not pass.
    __device__ __forceinline__ u32 missing(float sum) const { return __float_as_uint(sum - least); }

    // The lowest keys of 64 sums of a lane: those of a quarter of the columns, of its first row (HALF 0) or of that
    // eight below.
    template <u32 HALF>
    __device__ __forceinline__ u32 lowest_of_part(const float (&sums)[HALF_SUMS], u32 part) const {
        u32 lowest = NOT_SERVED;
#pragma unroll
        for (u32 octet = 0; octet < 8; ++octet) {
            const u32 at = 32 * part + 4 * octet + 2 * HALF;
            lowest = lowest_of(lowest, key_of(sums[at]), key_of(sums[at + 1]));
        }
        return lowest;
    }
};

// Those of integers lack the term of the row.
template <>
struct SumsOfRow<int> {
    float least;
    int term;
    int open;

    __device__ __forceinline__ void begin(const NearestWork &work, u32 row, float of_row) {
        least = of_row;
        const int given = row < work.tiles.rows.padded ? terms_of(work.tiles.rows, work.tiles.steps)[row] : 0;
        // That of a row that is none has no place in the differences of sums.
        term = given == ABSENT_TERM ? 0 : given;
        open = static_cast<int>(ceilf(max(min(of_row, 1.0f * ALL_SUMS), -1.0f * ALL_SUMS))) - term;
    }

    __device__ __forceinline__ u32 key(int sum) const { return key_of(static_cast<float>(sum + term)); }

    __device__ __forceinline__ u32 missing(int sum) const { return static_cast<u32>(sum - open); }

    template <u32 HALF>
    __device__ __forceinline__ u32 lowest_of_part(const int (&sums)[HALF_SUMS], u32 part) const {
        int greatest = ABSENT_TERM;
#pragma unroll
        for (u32 octet = 0; octet < 8; ++octet) {
            const u32 at = 32 * part + 4 * octet + 2 * HALF;
            greatest = __vimax3_s32(greatest, sums[at], sums[at + 1]);
        }
        return key(greatest);
    }
};

// The best of groups of columns. A group is what a lane sees of group_stages stages.
template <class Sum>
struct GroupBests {
    const NearestWork &work;
    // By tile and half.
    u32 lowest[2][2];
    SumsOfRow<Sum> rows[2][2];

    __device__ __forceinline__ explicit GroupBests(const NearestWork &work) : work(work) {}

    // `row`: the lane's first row of the first tile; `step`: that of the next tile is so far behind.
    __device__ __forceinline__ void begin(u32 row, u32 step) {
#pragma unroll
        for (u32 tile = 0; tile < 2; ++tile) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                lowest[tile][half] = NOT_SERVED;
                rows[tile][half].begin(work, row + tile * step + half * OCTET, 0);
            }
        }
    }

    // Looks through the sums of a tile of rows and a stage. `row`: the lane's first row.
    template <u32 TILE>
    __device__ __forceinline__ void look(const Sum (&sums)[HALF_SUMS], u32 row, u32 stage) {
        u32 (&of_tile)[2] = lowest[TILE];
#pragma unroll
        for (u32 part = 0; part < 4; ++part) {
            of_tile[0] = min(of_tile[0], rows[TILE][0].template lowest_of_part<0>(sums, part));
            of_tile[1] = min(of_tile[1], rows[TILE][1].template lowest_of_part<1>(sums, part));
        }
        if ((stage + 1) % work.group_stages != 0 && stage + 1 != work.sample_stages) {
            return;
        }
        const u32 group = stage / work.group_stages * 4 + lane_id() % 4;
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const u32 of_row = row + half * OCTET;
            if (of_row < work.row_count) {
                work.groups[u64{of_row} * work.group_count + group] = of_tile[half];
            }
            of_tile[half] = NOT_SERVED;
        }
    }

    __device__ __forceinline__ void close() const {}
};

// One of 32 sums of a lane, those of half of the columns and of one row, by selects: registers have no index.
template <u32 HALF, u32 SIDE, class Sum>
__device__ __forceinline__ Sum sum_at(const Sum (&sums)[HALF_SUMS], u32 place) {
    Sum left[16];
#pragma unroll
    for (u32 i = 0; i < 16; ++i) {
        const u32 at = 64 * SIDE + 32 * (i / 8) + 4 * (i % 8) + 2 * HALF;
        left[i] = (place & 1) != 0 ? sums[at + 1] : sums[at];
    }
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        left[i] = (place & 2) != 0 ? left[2 * i + 1] : left[2 * i];
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        left[i] = (place & 4) != 0 ? left[2 * i + 1] : left[2 * i];
    }
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
        left[i] = (place & 8) != 0 ? left[2 * i + 1] : left[2 * i];
    }
    return (place & 16) != 0 ? left[1] : left[0];
}

// The pairs that pass the thresholds of their rows. Where rows are columns, in one order by rising threshold, a
// pair that passes that of either vector passes that of the first one: pairs with earlier columns are left out.
template <class Sum>
struct PassingPairs {
    const NearestWork &work;
    SumsOfRow<Sum> rows[2][2];
    // The room that the warp has taken, alike in all lanes.
    u32 next = 0;
    u32 end = 0;

    __device__ __forceinline__ explicit PassingPairs(const NearestWork &work) : work(work) {}

    // As in GroupBests.
    __device__ __forceinline__ void begin(u32 row, u32 step) {
#pragma unroll
        for (u32 tile = 0; tile < 2; ++tile) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                const u32 of_row = row + tile * step + half * OCTET;
                const bool is_one = of_row < work.row_padded;
                rows[tile][half].begin(work, of_row, is_one ? work.thresholds[of_row] : infinity<float>());
            }
        }
    }

    template <u32 TILE>
    __device__ __forceinline__ void look(const Sum (&sums)[HALF_SUMS], u32 row, u32 stage) {
        const SumsOfRow<Sum> (&of_tile)[2] = rows[TILE];
        u32 passes[2];
        u32 lowest[2][4];
#pragma unroll
        for (u32 part = 0; part < 4; ++part) {
            lowest[0][part] = of_tile[0].template lowest_of_part<0>(sums, part);
            lowest[1][part] = of_tile[1].template lowest_of_part<1>(sums, part);
        }
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const u32 of_half = min(lowest_of(lowest[half][0], lowest[half][1], lowest[half][2]), lowest[half][3]);
            passes[half] = of_half <= key_of(of_tile[half].least) ? 1 : 0;
        }
        if (!__any_sync(ALL_LANES, (passes[0] | passes[1]) != 0)) {
            return;
        }
        // By half and half of the columns.
        u32 open[4] = {};
#pragma unroll
        for (u32 part = 0; part < 4; ++part) {
            const bool any = lowest[0][part] <= key_of(of_tile[0].least) || lowest[1][part] <= key_of(of_tile[1].least);
            if (!__any_sync(ALL_LANES, any)) {
                continue;
            }
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                u32 below = 0;
#pragma unroll
                for (u32 i = 16; i > 0; --i) {
                    const Sum sum = sums[32 * part + (i - 1) / 2 * 4 + 2 * half + (i - 1) % 2];
                    below = __funnelshift_l(of_tile[half].missing(sum), below, 1);
                }
                open[2 * half + part / 2] |= (~below & 0xffff) << part % 2 * 16;
            }
        }
        const u32 first = stage * HALF_COLUMNS;
        if (work.tiles.same && first < row + OCTET) {
#pragma unroll
            for (u32 word = 0; word < 4; ++word) {
                leave_out_earlier(open[word], row + word / 2 * OCTET, first, word % 2);
            }
        }
        give(sums, of_tile, row, first, open);
    }

    // Gives back the room that was not used. By all lanes of a warp.
    __device__ __forceinline__ void close() const {
        for (u32 at = next + lane_id(); at < end; at += WARP) {
            if (at < work.tiles.capacity) {
                work.list[at] = uint2{NO_UNIT, 0};
            }
        }
    }

private:
    __device__ __forceinline__ static u32 column_at(u32 first, u32 side, u32 bit) {
        return first + (side * 16 + bit / 2) * OCTET + 2 * (lane_id() % 4) + bit % 2;
    }

    __device__ __forceinline__ static void leave_out_earlier(u32 &open, u32 row, u32 first, u32 side) {
        u32 left = open;
        while (left != 0) {
            const u32 bit = static_cast<u32>(__ffs(static_cast<int>(left))) - 1;
            left &= left - 1;
            if (column_at(first, side, bit) < row) {
                open &= ~(1u << bit);
            }
        }
    }

    // Lists the pairs whose bits are set, one of each lane that has some left at a time.
    __device__ __forceinline__ void give(const Sum (&sums)[HALF_SUMS], const SumsOfRow<Sum> (&of_tile)[2], u32 row,
                                         u32 first, u32 (&open)[4]) {
        u32 mask = __ballot_sync(ALL_LANES, (open[0] | open[1] | open[2] | open[3]) != 0);
        while (mask != 0) {
            const u32 count = static_cast<u32>(__popc(mask));
            const u32 held = end - next;
            u32 more = 0;
            if (count > held) {
                more = take(count - held);
            }
            const u32 at = static_cast<u32>(__popc(mask & lanes_below()));
            const u32 to = at < held ? next + at : more + (at - held);
            next = count > held ? more + (count - held) : next + count;
            if (open[0] != 0) {
                give_one<0, 0>(sums, of_tile, row, first, to, open[0]);
            } else if (open[1] != 0) {
                give_one<0, 1>(sums, of_tile, row, first, to, open[1]);
            } else if (open[2] != 0) {
                give_one<1, 0>(sums, of_tile, row, first, to, open[2]);
            } else if (open[3] != 0) {
                give_one<1, 1>(sums, of_tile, row, first, to, open[3]);
            }
            mask = __ballot_sync(ALL_LANES, (open[0] | open[1] | open[2] | open[3]) != 0);
        }
    }

    template <u32 HALF, u32 SIDE>
    __device__ __forceinline__ void give_one(const Sum (&sums)[HALF_SUMS], const SumsOfRow<Sum> (&of_tile)[2], u32 row,
                                             u32 first, u32 to, u32 &open) {
        const u32 bit = static_cast<u32>(__ffs(static_cast<int>(open))) - 1;
        open &= open - 1;
        if (to < work.tiles.capacity) {
            work.list[to] = uint2{row + HALF * OCTET, column_at(first, SIDE, bit)};
            work.list_keys[to] = of_tile[HALF].key(sum_at<HALF, SIDE>(sums, bit));
        }
    }

    // Takes room for `count` pairs more, and says where it begins. By all lanes of a warp.
    __device__ __forceinline__ u32 take(u32 count) {
        const u32 wanted = (count + work.tiles.chunk - 1) / work.tiles.chunk * work.tiles.chunk;
        u32 from = 0;
        if (lane_id() == 0) {
            const u64 taken = atomicAdd(&work.tiles.tally->hits, u64{wanted});
            from = taken < work.tiles.capacity ? static_cast<u32>(taken) : work.tiles.capacity;
        }
        from = __shfl_sync(ALL_LANES, from, 0);
        end = from + wanted;
        return from;
    }
};

// Multiplies rows, which stay in registers, with columns.
template <class Shape, class Rows, class Sum, class Looker>
__device__ __forceinline__ void multiply_rows(const NearestWork &work) {
    ALIGNED_SHARED(ring);
    __shared__ WarpgroupShared<Shape> shared;
    shared.open();
    if (warp_id() >= Shape::WARPS) {
        leave_registers<40>();
        if (warp_id() == Shape::WARPS) {
            Feeder<Shape> feeder(work.tiles, shared, ring);
            while (!feeder.has_ended) {
                feeder.feed();
            }
        }
        return;
    }
    take_registers<232>();
    Multiplier<Shape> multiplier(work.tiles, shared);
    Looker looker(work);
    Rows first;
    Rows second;
    u32 current = NO_UNIT;
    u32 first_row = 0;
    while (true) {
        multiplier.wait_for_slot();
        const SlotHeader header = shared.headers[multiplier.slot()];
        if (header.unit == NO_UNIT) {
            break;
        }
        if (header.unit != current) {
            current = header.unit;
            first_row = work.tiles.units[current].first_row;
            first.load(work.tiles, first_row, 0);
            second.load(work.tiles, first_row, 1);
            looker.begin(first_row + first.row, second.row - first.row);
        }
        const u32 *columns = ring + multiplier.slot() * Shape::SLOT;
        Sum sums[HALF_SUMS];
        first.multiply(sums, columns);
        looker.template look<0>(sums, first_row + first.row, header.stage);
        second.multiply(sums, columns);
        multiplier.leave_slot();
        looker.template look<1>(sums, first_row + second.row, header.stage);
    }
    looker.close();
}

// Those of STEPS steps of halves.
template <u32 STEPS, template <class> class Looker>
__device__ __forceinline__ void multiply_kept_rows(const NearestWork &work) {
    multiply_rows<KeptRows<STEPS>, RowFragments<STEPS>, float, Looker<float>>(work);
}

// Those of STEPS steps of integers.
template <u32 STEPS, template <class> class Looker>
__device__ __forceinline__ void multiply_kept_integers(const NearestWork &work) {
    multiply_rows<KeptIntegers<STEPS>, IntegerRows<STEPS>, int, Looker<int>>(work);
}

// The same of longer vectors, whose rows come in blocks of steps as their columns do.
template <class Looker>
__device__ __forceinline__ void multiply_shared_rows(const NearestWork &work) {
    using Shape = SharedRows;
    ALIGNED_SHARED(ring);
    __shared__ WarpgroupShared<Shape> shared;
    shared.open();
    Feeder<Shape> feeder(work.tiles, shared, ring);
    const auto feed = [&]() {
        if (warp_id() == 0) {
            feeder.feed();
        }
    };
    for (u32 i = 0; i < Shape::SLOTS - 2; ++i) {
        feed();
    }
    Multiplier<Shape> multiplier(work.tiles, shared);
    Looker looker(work);
    const u32 whole = (work.tiles.steps - 1) / 4;
    const u32 rest = (work.tiles.steps - 1) % 4;
    u32 current = NO_UNIT;
    u32 row = 0;
    while (true) {
        feed();
        multiplier.wait_for_slot();
        const SlotHeader header = shared.headers[multiplier.slot()];
        if (header.unit == NO_UNIT) {
            break;
        }
        if (header.unit != current) {
            current = header.unit;
            row = work.tiles.units[current].first_row + warp_id() * 16 + lane_id() / 4;
            looker.begin(row, 0);
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
        looker.template look<0>(sums, row, header.stage);
    }
    looker.close();
}
#endif
