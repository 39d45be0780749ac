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

    // Ends a unit, by one thread. A barrier stands in front.
    __device__ __forceinline__ void finish(const VectorWork &work) {
        const bool is_whole = failed == 0 && found <= work.room;
        work.failed[number] = !is_whole;
        if (!is_whole) {
            work.redo[atomicAdd(&work.tally->redone, 1u)] = number | (found > work.room ? TOO_MANY : 0);
            return;
        }
        atomicAdd(&work.tally->tests, u64{work.strip_rows} * work.stage_columns * unit.stages);
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

// The room for hits that a warp has taken. Alike in all lanes.
struct HitRoom {
    u64 next = 0;
    u64 end = 0;

    // Notes the pairs whose bits are set in `open`: bit b of word w is the pair of row and column
    // place(w, b) of the strip and the unit, by 16 bits; `sure` has those that match. By all lanes of
    // a warp.
    template <u32 ROWS, u32 WORDS, class Place>
    __device__ __forceinline__ void give(const VectorWork &work, OpenUnit<ROWS> &unit, u32 (&open)[WORDS],
                                         u32 (&sure)[WORDS], Place place) {
        const u32 first_column = unit.unit.first_stage * work.stage_columns;
        u32 count = 0;
        u32 counted = 0;
#pragma unroll
        for (u32 word = 0; word < WORDS; ++word) {
            u32 left = open[word];
            while (left != 0) {
                const u32 bit = static_cast<u32>(__ffs(static_cast<int>(left))) - 1;
                left &= left - 1;
                const u32 pair = place(word, bit);
                const u32 row = pair >> 16;
                const u32 column = first_column + (pair & 0xffff);
                if (column < unit.low[row] || column >= unit.high[row]) {
                    open[word] &= ~(1u << bit);
                } else if (work.same && column == unit.unit.first_row + row) {
                    // Counted apart, by a kernel that decides.
                    sure[word] &= ~(1u << bit);
                }
            }
            if (work.counts_sure) {
                counted += static_cast<u32>(__popc(open[word] & sure[word]));
                open[word] &= ~sure[word];
            }
            count += static_cast<u32>(__popc(open[word]));
        }
        if (work.counts_sure) {
            counted = sum_of_lanes<WARP>(counted);
            if (lane_id() == 0 && counted > 0) {
                atomicAdd(&unit.sure, counted);
            }
        }
        u32 before = count;
#pragma unroll
        for (u32 distance = 1; distance < WARP; distance *= 2) {
            const u32 other = __shfl_up_sync(ALL_LANES, before, distance);
            before += lane_id() >= distance ? other : 0;
        }
        const u32 total = __shfl_sync(ALL_LANES, before, WARP - 1);
        if (total == 0) {
            return;
        }
        const u64 held = end - next;
        u64 more = 0;
        if (total > held) {
            const u64 wanted = (total - held + work.chunk - 1) / work.chunk * work.chunk;
            if (lane_id() == 0) {
                more = atomicAdd(&work.tally->hits, wanted);
            }
            more = __shfl_sync(ALL_LANES, more, 0);
            end = more + wanted;
        }
        if (lane_id() == 0) {
            atomicAdd(&unit.found, total);
        }
        u64 at = before - count;
        bool fits = true;
#pragma unroll
        for (u32 word = 0; word < WORDS; ++word) {
            u32 left = open[word];
            while (left != 0) {
                const u32 bit = static_cast<u32>(__ffs(static_cast<int>(left))) - 1;
                left &= left - 1;
                const u64 to = at < held ? next + at : more + (at - held);
                ++at;
                fits &= to < work.capacity;
                if (to < work.capacity) {
                    work.hits[to] = VectorHit{unit.number, (sure[word] >> bit & 1) << 31 | place(word, bit)};
                }
            }
        }
        if (!fits) {
            atomicOr(&unit.failed, 1u);
        }
        next = total > held ? more + (total - held) : next + total;
    }

    // Gives back what was not used. By all lanes of a warp.
    __device__ __forceinline__ void close(const VectorWork &work) const {
        for (u64 at = next + lane_id(); at < end; at += WARP) {
            if (at < work.capacity) {
                work.hits[at] = VectorHit{NO_UNIT, 0};
            }
        }
    }
};
