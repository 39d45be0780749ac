// A unit on its way through a block: which pairs of it count, and where the hits of its warps go.
//
// A warp takes room for hits in chunks and fills them with hits of one unit after the other. When
// there is no room left the unit has failed: its hits name it, and deciding kernels skip them. Nothing
// of a unit is counted before its end.
#pragma once

#include "runs.cuh"
#include "vector_halves.cuh"
#include "warp.cuh"

// What the warps of a block know of a unit of at most ROWS rows. Shared by the block.
template <u32 ROWS>
struct OpenUnit {
    u32 number;
    VectorUnit unit;
    // Hits, those that are sure and were only counted, and whether there was no room for some.
    u32 found;
    u32 sure;
    u32 failed;
    // Pairs of groups that were tested, of kernels that do not test all pairs.
    u32 tested;
    // By row of the strip: the columns low .. high that it meets, and its bound.
    u32 low[ROWS];
    u32 high[ROWS];
    float bound[ROWS];

    // Begins a unit, with thread `thread` of `threads`. Barriers stand in front and behind.
    __device__ __forceinline__ void begin(const VectorWork &work, u32 of, u32 thread, u32 threads) {
        const VectorUnit begun = work.units[of];
        if (thread == 0) {
            number = of;
            unit = begun;
            found = 0;
            sure = 0;
            failed = 0;
            tested = 0;
        }
        for (u32 place = thread; place < ROWS; place += threads) {
            const u32 row = begun.first_row + place;
            u32 start = 0;
            u32 end = 0;
            float of_row = infinity<float>();
            if (place < work.strip_rows && row >= work.first_row && row < work.end_row) {
                const VectorRun run = run_before(work.runs, work.run_count, row);
                start = work.same ? max(run.start, row) : run.start;
                end = min(run.end, work.column_count);
                of_row = work.rows.bounds[row - work.rows.first].sure;
            }
            low[place] = start;
            high[place] = max(start, end);
            bound[place] = of_row;
        }
    }

    // Whether some pair of a row and `columns` columns from `first` on may not count, or is one of a
    // vector with itself.
    __device__ __forceinline__ bool clips(u32 row, u32 first, u32 columns) const {
        return first <= low[row] || first + columns > high[row];
    }

    __device__ __forceinline__ u64 all_pairs(const VectorWork &work) const {
        return u64{work.strip_rows} * work.stage_columns * unit.stages;
    }

    // Ends a unit all of whose pairs were tested, by one thread. A barrier stands in front.
    __device__ __forceinline__ void finish(const VectorWork &work) {
        finish(work, all_pairs(work));
    }

    // The same where `tests` pairs were.
    __device__ __forceinline__ void finish(const VectorWork &work, u64 tests) {
        const bool is_whole = failed == 0 && found <= work.room;
        work.failed[number] = !is_whole;
        if (!is_whole) {
            work.redo[atomicAdd(&work.tally->redone, 1u)] = number | (found > work.room ? TOO_MANY : 0);
            return;
        }
        atomicAdd(&work.tally->tests, tests);
        if (sure > 0) {
            atomicAdd(&work.tally->found.matches, u64{sure});
            atomicAdd(&work.tally->found.cross, u64{sure});
        }
    }
};

// Takes the next unit, by one thread; NO_UNIT once there is none. Units for which there is hardly room
// are not tested.
__device__ __forceinline__ u32 take_unit(const VectorWork &work) {
    while (true) {
        const u32 number = atomicAdd(&work.tally->next, 1u);
        if (number >= work.unit_count) {
            return NO_UNIT;
        }
        if (atomicAdd(&work.tally->hits, u64{0}) <= work.capacity - work.capacity / 8) {
            return number;
        }
        work.failed[number] = 1;
        work.redo[atomicAdd(&work.tally->redone, 1u)] = number;
    }
}

// The room for hits that a warp has taken, alike in all lanes; and what a lane has noted or counted.
struct HitRoom {
    u32 next = 0;
    u32 end = 0;
    u32 noted = 0;
    u32 counted = 0;

    // Notes the pairs whose bits are set in `open`: bit b of word w is the pair of row and column
    // place(w, b) of the strip and the unit, by 16 bits; `sure` has those that match. `clipped`: the
    // words some of whose pairs may not count. By all lanes of a warp.
    template <u32 ROWS, u32 WORDS, class Place>
    __device__ __forceinline__ void give(const VectorWork &work, OpenUnit<ROWS> &unit, u32 (&open)[WORDS],
                                         u32 (&sure)[WORDS], u32 clipped, Place place) {
        u32 any = 0;
#pragma unroll
        for (u32 word = 0; word < WORDS; ++word) {
            if (clipped >> word & 1) {
                clip(work, unit, open[word], sure[word], [&](u32 bit) { return place(word, bit); });
            }
            if (work.counts_sure) {
                counted += static_cast<u32>(__popc(open[word] & sure[word]));
                open[word] &= ~sure[word];
            }
            any |= open[word];
        }
        // A hit of each lane that has some left: mostly there are few.
        u32 mask = __ballot_sync(ALL_LANES, any != 0);
        while (mask != 0) {
            const u32 count = static_cast<u32>(__popc(mask));
            const u32 held = end - next;
            u32 more = 0;
            if (count > held) {
                more = take(work, count - held);
            }
            const u32 at = static_cast<u32>(__popc(mask & lanes_below()));
            const u32 to = at < held ? next + at : more + (at - held);
            next = count > held ? more + (count - held) : next + count;
            bool has_given = false;
            any = 0;
#pragma unroll
            for (u32 word = 0; word < WORDS; ++word) {
                if (!has_given && open[word] != 0) {
                    const u32 bit = static_cast<u32>(__ffs(static_cast<int>(open[word]))) - 1;
                    open[word] &= open[word] - 1;
                    note(work, unit, to, (sure[word] >> bit & 1) << 31 | place(word, bit));
                    has_given = true;
                }
                any |= open[word];
            }
            mask = __ballot_sync(ALL_LANES, any != 0);
        }
    }

    // Adds what was counted to the unit. By all lanes of a warp.
    template <u32 ROWS>
    __device__ __forceinline__ void settle(OpenUnit<ROWS> &unit) {
        const u32 hits = sum_of_lanes<WARP>(noted);
        const u32 sure = sum_of_lanes<WARP>(counted);
        if (lane_id() == 0) {
            atomicAdd(&unit.found, hits);
            atomicAdd(&unit.sure, sure);
        }
        noted = 0;
        counted = 0;
    }

    // Gives back what was not used. By all lanes of a warp.
    __device__ __forceinline__ void close(const VectorWork &work) const {
        for (u32 at = next + lane_id(); at < end; at += WARP) {
            if (at < work.capacity) {
                work.hits[at] = VectorHit{NO_UNIT, 0};
            }
        }
    }

private:
    // Takes room for `count` hits more, and says where it begins. By all lanes of a warp.
    __device__ __forceinline__ u32 take(const VectorWork &work, u32 count) {
        const u32 wanted = (count + work.chunk - 1) / work.chunk * work.chunk;
        u32 from = 0;
        if (lane_id() == 0) {
            const u64 taken = atomicAdd(&work.tally->hits, u64{wanted});
            from = taken < work.capacity ? static_cast<u32>(taken) : work.capacity;
        }
        from = __shfl_sync(ALL_LANES, from, 0);
        end = from + wanted;
        return from;
    }

    template <u32 ROWS>
    __device__ __forceinline__ void note(const VectorWork &work, OpenUnit<ROWS> &unit, u32 to, u32 place) {
        ++noted;
        if (to < work.capacity) {
            work.hits[to] = VectorHit{unit.number, place};
        } else {
            unit.failed = 1;
        }
    }

    // Takes pairs out that do not count; a vector's pair with itself is not sure, so that a kernel
    // that decides counts it.
    template <u32 ROWS, class Place>
    __device__ __forceinline__ static void clip(const VectorWork &work, const OpenUnit<ROWS> &unit, u32 &open,
                                                u32 &sure, Place place) {
        u32 left = open;
        while (left != 0) {
            const u32 bit = static_cast<u32>(__ffs(static_cast<int>(left))) - 1;
            left &= left - 1;
            const u32 pair = place(bit);
            const u32 row = pair >> 16;
            const u32 column = work.column_of(unit.unit, pair & 0xffff);
            if (column < unit.low[row] || column >= unit.high[row]) {
                open &= ~(1u << bit);
            } else if (work.same && column == unit.unit.first_row + row) {
                sure &= ~(1u << bit);
            }
        }
    }
};

// Has a block of `threads` threads test unit after unit, with room for hits of each warp: `test` tests
// `unit` and settles, by all threads; `tests` is how many pairs it has tested, by one.
template <u32 ROWS, class Test, class Tests>
__device__ __forceinline__ void walk_units(const VectorWork &work, OpenUnit<ROWS> &unit, u32 threads, Test test,
                                           Tests tests) {
    __shared__ u32 taken;
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) {
            taken = take_unit(work);
        }
        __syncthreads();
        if (taken == NO_UNIT) {
            break;
        }
        unit.begin(work, taken, threadIdx.x, threads);
        __syncthreads();
        test();
        __syncthreads();
        if (threadIdx.x == 0) {
            unit.finish(work, tests());
        }
    }
}

// Has a block of `threads` threads test unit after unit: `test(room, stage)` tests a stage of `unit`, by all
// threads.
template <u32 ROWS, class Test>
__device__ __forceinline__ void test_units(const VectorWork &work, OpenUnit<ROWS> &unit, u32 threads, Test test) {
    HitRoom room;
    const auto test_all = [&] {
        for (u32 stage = 0; stage < unit.unit.stages; ++stage) {
            test(room, stage);
        }
        room.settle(unit);
    };
    walk_units(work, unit, threads, test_all, [&] { return unit.all_pairs(work); });
    room.close(work);
}
