// Decides pairs of rows and columns: by their keys and sizes, by the signatures of both, then by
// their tokens. Pairs that are left for their tokens gather in shared memory, until there is one for
// every lane of the warp.
#pragma once

#include "answers.cuh"
#include "runs.cuh"
#include "signatures.cuh"
#include "warp.cuh"

// A pair whose tokens decide.
struct OpenPair {
    u32 row;
    u32 column;
    u32 required;
};

// Pairs of a warp that wait: what is left of a warp's, and another warp's.
constexpr u32 OPEN_PAIRS = 2 * WARP;
constexpr u32 DECIDING_WARPS = 4;

// The overlap of a row and a column by their tokens. Stops where the required one is out of reach
// or, unless `exact`, reached.
__device__ __forceinline__ u32 overlap_of(const TileWork &work, const OpenPair &pair) {
    u64 a = __ldg(&work.rows.sets.offsets[pair.row]);
    const u64 a_end = __ldg(&work.rows.sets.offsets[pair.row + u64{1}]);
    u64 b = __ldg(&work.columns.sets.offsets[pair.column]);
    const u64 b_end = __ldg(&work.columns.sets.offsets[pair.column + u64{1}]);
    u32 overlap = 0;
    while (a < a_end && b < b_end) {
        if (overlap + min(a_end - a, b_end - b) < pair.required || (!work.exact && overlap >= pair.required)) {
            break;
        }
        const u32 x = __ldg(&work.rows.sets.tokens[a]);
        const u32 y = __ldg(&work.columns.sets.tokens[b]);
        overlap += x == y;
        a += x <= y;
        b += y <= x;
    }
    return overlap;
}

// Decides pairs for one of the answers of answers.cuh.
template <class Answer>
struct Decider {
    const TileWork &work;
    Answer answer;
    OpenPair *open;
    // Alike in all lanes.
    u32 waiting = 0;
    u64 compared = 0;

    __device__ __forceinline__ Decider(const TileWork &work, OpenPair *open)
        : work(work), answer(work), open(open + warp_id() * OPEN_PAIRS) {}

    // Takes a pair a lane, where there is one. By all lanes of a warp.
    __device__ __forceinline__ void take(bool present, u32 row, u32 column) {
        OpenPair pair{row, column, NEVER};
        u32 common = 0;
        bool passes = present && row >= work.first_row && row < work.end_row && column < work.column_count &&
                      !(work.same && column <= row);
        if (passes) {
            const RowRun run = run_before(work.runs, work.run_count, row);
            passes = column >= run.start && column < run.end && !is_settled(row);
            if (passes) {
                pair.required = __ldg(&work.table[run.table + __ldg(&work.classes[column])]);
                common = common_bits(row, column);
                const u32 hidden = min(__ldg(&work.rows.hidden[row]), __ldg(&work.columns.hidden[column]));
                passes = pair.required != NEVER && common + hidden >= pair.required;
            }
        }
        if (work.decides) {
            settle(passes, pair, common);
            return;
        }
        const u32 mask = __ballot_sync(ALL_LANES, passes);
        if (passes) {
            open[waiting + static_cast<u32>(__popc(mask & lanes_below()))] = pair;
        }
        waiting += static_cast<u32>(__popc(mask));
        __syncwarp();
        if (waiting >= WARP) {
            waiting -= WARP;
            compare(waiting, WARP);
        }
    }

    // Decides what is left. By all threads of a block.
    __device__ __forceinline__ void finish() {
        compare(0, waiting);
        const u64 sum = sum_of_lanes<WARP>(compared);
        if (lane_id() == 0 && sum > 0) {
            atomicAdd(&work.tally->compared, sum);
        }
        answer.finish();
    }

private:
    // Compares the tokens of `count` pairs, a lane each, from place `first` on.
    __device__ __forceinline__ void compare(u32 first, u32 count) {
        const bool present = lane_id() < count;
        OpenPair pair{0, 0, NEVER};
        if (present) {
            pair = open[first + lane_id()];
        }
        // The places may be taken again.
        __syncwarp();
        const bool is_open = present && !is_settled(pair.row);
        const u32 overlap = is_open ? overlap_of(work, pair) : 0;
        compared += is_open;
        settle(is_open && overlap >= pair.required, pair, overlap);
    }

    // Whether the row needs no further match.
    __device__ __forceinline__ bool is_settled(u32 row) const {
        return work.seen && atomicAdd(&work.seen[row - work.first_row], 0u) > 0;
    }

    // Gives the pairs that match. By all lanes of a warp.
    __device__ __forceinline__ void settle(bool matches, const OpenPair &pair, u32 overlap) {
        if (matches && work.seen) {
            matches = atomicAdd(&work.seen[pair.row - work.first_row], 1u) == 0;
        }
        answer.push(matches, pair.row, pair.column, overlap);
    }

    __device__ __forceinline__ u32 common_bits(u32 row, u32 column) const {
        u32 common = 0;
#pragma unroll 4
        for (u32 quad = 0; quad < work.width / 4; ++quad) {
            const uint4 a = *reinterpret_cast<const uint4 *>(work.rows.words + place_of(row, work.width, quad));
            const uint4 b = *reinterpret_cast<const uint4 *>(work.columns.words + place_of(column, work.width, quad));
            common += static_cast<u32>(__popc(a.x & b.x) + __popc(a.y & b.y) + __popc(a.z & b.z) + __popc(a.w & b.w));
        }
        return common;
    }
};

using TilePairs = GivenPairs<TileWork>;
using TileCount = CountedPairs<TileWork>;

// Decides the pairs behind hits.
template <class Answer>
__device__ __forceinline__ void decide_hits(const TileWork &work) {
    __shared__ OpenPair open[DECIDING_WARPS * OPEN_PAIRS];
    Decider<Answer> decider(work, open);
    const u64 total = work.tally->hits * work.members;
    const u64 step = u64{gridDim.x} * blockDim.x;
    for (u64 base = u64{blockIdx.x} * blockDim.x + warp_id() * WARP; base < total; base += step) {
        const u64 at = base + lane_id();
        Hit hit{0, 0};
        if (at < total) {
            hit = work.hits[at / work.members];
        }
        const u32 member = static_cast<u32>(at % work.members);
        decider.take(at < total, hit.row, hit.column * work.members + member);
    }
    decider.finish();
}

// Decides all pairs of units that have more hits than a block has room for.
template <class Answer>
__device__ __forceinline__ void decide_units(const TileWork &work) {
    __shared__ OpenPair open[DECIDING_WARPS * OPEN_PAIRS];
    Decider<Answer> decider(work, open);
    const u32 stage_sets = work.stage_columns * work.members;
    const u64 step = u64{gridDim.x} * blockDim.x;
    for (u32 number = 0; number < work.unit_count; ++number) {
        const Unit unit = work.units[number];
        const Strip strip = work.strips[unit.strip];
        const u32 width = unit.stages * stage_sets;
        const u64 total = u64{work.strip_rows} * width;
        // A stage holds a multiple of a warp's columns: the lanes of a warp share a row.
        for (u64 base = u64{blockIdx.x} * blockDim.x + warp_id() * WARP; base < total; base += step) {
            const u64 at = base + lane_id();
            const u32 row = strip.first + static_cast<u32>(at / width);
            decider.take(true, row, unit.first_stage * stage_sets + static_cast<u32>(at % width));
        }
    }
    decider.finish();
}
