// The rows of a work: their lists of postings, and room for candidates.
#pragma once

#include "index_abi.cuh"
#include "runs.cuh"
#include "warp.cuh"

// Postings of a list.
struct List {
    u32 begin;
    u32 length;
};

// A row with the columns of the part that it admits.
struct Row {
    RowState state;
    ProbeRun run;
    // Its tokens: the place of the first one, how many there are, and how many are looked up.
    u64 first;
    u32 known;
    u32 prefix;
    u32 start;
    u32 end;

    // `number`: of the row in the work.
    __device__ __forceinline__ Row(const IndexWork &work, u32 number)
        : state(work.states ? work.states[number] : RowState{work.first_row + number, 0, 0}),
          run(run_before(work.runs, work.run_count, state.row)),
          first(__ldg(&work.rows.offsets[state.row])),
          known(static_cast<u32>(__ldg(&work.rows.offsets[state.row + u64{1}]) - first)),
          prefix(0),
          start(max(run.start, work.part_first)),
          end(min(run.end, work.part_end)) {
        // Unknown tokens are the rarest: they stand in front.
        const u32 unknown = run.size - known;
        prefix = run.prefix > unknown ? min(run.prefix - unknown, known) : 0;
        if (work.same) {
            end = min(end, state.row);
        }
    }

    __device__ __forceinline__ u32 token(const IndexWork &work, u32 place) const {
        return __ldg(&work.rows.tokens[first + place]);
    }

    // The postings of a token of columns that the row admits and has not met under it.
    __device__ __forceinline__ List list(const IndexWork &work, u32 place) const {
        const u32 of = token(work, place);
        const u32 from = place == state.place ? max(start, state.from) : start;
        const u32 stop = __ldg(&work.offsets[of + u64{1}]);
        const u32 begin = first_from(work, __ldg(&work.offsets[of]), stop, from);
        return List{begin, first_from(work, begin, stop, end) - begin};
    }

private:
    // The first posting from `low` on, and before `high`, of a set from `set` on.
    static __device__ __forceinline__ u32 first_from(const IndexWork &work, u32 low, u32 high, u32 set) {
        while (low < high) {
            const u32 middle = low + (high - low) / 2;
            if (__ldg(&work.postings.sets[middle]) < set) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }
};

// The overlap that a row requires of an admitted column of a class.
__device__ __forceinline__ u32 required_of(const IndexWork &work, const ProbeRun &run, u32 size_class) {
    return __ldg(&work.table[run.table + size_class]);
}

// Whether blocks should take no further row: most of the room is taken, or the time used up.
__device__ __forceinline__ bool is_full(const IndexWork &work) {
    return atomicAdd(&work.tally->hits, u64{0}) > work.capacity - work.capacity / 8 ||
           atomicAdd(&work.tally->postings, u64{0}) > work.budget;
}

// Room for `wanted` candidates, by one thread; false where there is none. The first request that
// fails leaves a gap behind the candidates, and all later ones fail too.
__device__ __forceinline__ bool reserve(const IndexWork &work, u32 wanted, u64 &place) {
    place = atomicAdd(&work.tally->hits, u64{wanted});
    if (place + wanted <= work.capacity) {
        return true;
    }
    atomicMax(&work.tally->gap, work.capacity - min(place, u64{work.capacity}));
    return false;
}

// The number of candidates, once all are written.
__device__ __forceinline__ u64 candidate_count(const IndexWork &work) {
    const u64 hits = work.tally->hits;
    return hits <= work.capacity ? hits : work.capacity - work.tally->gap;
}

// Notes where to go on with a row, by one thread. A row is left once.
__device__ __forceinline__ void leave(const IndexWork &work, const RowState &state) {
    work.redo[atomicAdd(&work.tally->redone, 1u)] = state;
}

// Adds the candidates of a warp, one a lane where it passes; false, and nothing done, where they find
// no room. By all lanes.
__device__ __forceinline__ bool add_candidates(const IndexWork &work, bool passes, const IndexCandidate &candidate) {
    const u32 mask = __ballot_sync(ALL_LANES, passes);
    if (mask == 0) {
        return true;
    }
    u64 place = 0;
    int has_room = 0;
    if (lane_id() == 0) {
        has_room = reserve(work, static_cast<u32>(__popc(mask)), place);
    }
    has_room = __shfl_sync(ALL_LANES, has_room, 0);
    place = __shfl_sync(ALL_LANES, place, 0);
    if (passes && has_room) {
        work.candidates[place + static_cast<u32>(__popc(mask & lanes_below()))] = candidate;
    }
    return has_room != 0;
}

// Rows that a warp takes at a time, by one addition to the tally.
constexpr u32 ROWS_A_TURN = 8;

// Has the warps of a grid do all rows of a work: `one(row, postings)` does a row, adds the postings
// that it reads, and is false where candidates have found no room, the row being left. By all
// threads.
template <class One>
__device__ __forceinline__ void each_row_of_warps(const IndexWork &work, One one) {
    u64 postings = 0;
    while (true) {
        u32 number = 0;
        int full = 0;
        if (lane_id() == 0) {
            number = atomicAdd(&work.tally->next, ROWS_A_TURN);
            full = is_full(work);
        }
        number = __shfl_sync(ALL_LANES, number, 0);
        full = __shfl_sync(ALL_LANES, full, 0);
        if (number >= work.row_count) {
            break;
        }
        const u32 end = min(number + ROWS_A_TURN, work.row_count);
        for (; number < end; ++number) {
            const Row row(work, number);
            if (row.start >= row.end) {
                continue;
            }
            if (full) {
                if (lane_id() == 0) {
                    leave(work, row.state);
                }
            } else {
                full = !one(row, number, postings);
            }
        }
        if (lane_id() == 0 && postings > 0) {
            atomicAdd(&work.tally->postings, postings);
        }
        postings = 0;
    }
}
