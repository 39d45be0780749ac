// Decides candidates by the tokens of both sets, a thread a candidate.
#pragma once

#include "answers.cuh"
#include "index_rows.cuh"

// The tokens that two sets have in common from some places on. Stops where the required number is out
// of reach or, unless `exact`, reached.
__device__ __forceinline__ u32 common_from(const IndexWork &work, const IndexCandidate &pair, u32 required) {
    const u64 *row = work.rows.offsets + pair.row;
    const u64 *column = work.columns.offsets + pair.column;
    u64 a = __ldg(row) + pair.row_at;
    const u64 a_end = __ldg(row + 1);
    u64 b = __ldg(column) + pair.column_at;
    const u64 b_end = __ldg(column + 1);
    u32 common = 0;
    while (a < a_end && b < b_end) {
        if (common + min(a_end - a, b_end - b) < required || (!work.exact && common >= required)) {
            break;
        }
        const u32 x = __ldg(&work.rows.tokens[a]);
        const u32 y = __ldg(&work.columns.tokens[b]);
        common += x == y;
        a += x <= y;
        b += y <= x;
    }
    return common;
}

// Whether two sets have a token in common before these places.
__device__ __forceinline__ bool meet_before(const IndexWork &work, const IndexCandidate &pair) {
    u64 a = __ldg(&work.rows.offsets[pair.row]);
    const u64 a_end = a + pair.row_at;
    u64 b = __ldg(&work.columns.offsets[pair.column]);
    const u64 b_end = b + pair.column_at;
    while (a < a_end && b < b_end) {
        const u32 x = __ldg(&work.rows.tokens[a]);
        const u32 y = __ldg(&work.columns.tokens[b]);
        if (x == y) {
            return true;
        }
        a += x < y;
        b += y < x;
    }
    return false;
}

// Decides each candidate: `decide(pair, overlap, compared)` is whether the pair matches, and sets its
// overlap. It is not asked where the row has its only match already.
template <class Answer, class Decide>
__device__ __forceinline__ void decide_each(const IndexWork &work, Decide decide) {
    Answer answer(work);
    const u64 total = candidate_count(work);
    const u64 step = u64{gridDim.x} * blockDim.x;
    u64 compared = 0;
    for (u64 base = u64{blockIdx.x} * blockDim.x + warp_id() * WARP; base < total; base += step) {
        IndexCandidate pair{0, 0, 0, 0};
        u32 overlap = 0;
        bool matches = false;
        if (base + lane_id() < total) {
            pair = work.candidates[base + lane_id()];
            u32 *seen = work.seen ? &work.seen[pair.row - work.first_row] : nullptr;
            const bool is_wanted = !seen || atomicAdd(seen, 0u) == 0;
            matches = is_wanted && decide(pair, overlap, compared);
            if (matches && seen) {
                matches = atomicAdd(seen, 1u) == 0;
            }
        }
        answer.push(matches, pair.row, pair.column, overlap);
    }
    const u64 sum = sum_of_lanes<WARP>(compared);
    if (lane_id() == 0 && sum > 0) {
        atomicAdd(&work.tally->compared, sum);
    }
    answer.finish();
}

template <class Answer>
__device__ __forceinline__ void decide_candidates(const IndexWork &work) {
    decide_each<Answer>(work, [&](const IndexCandidate &pair, u32 &overlap, u64 &compared) {
        const ProbeRun run = run_before(work.runs, work.run_count, pair.row);
        const u32 required = required_of(work, run, __ldg(&work.classes[pair.column]));
        overlap = common_from(work, pair, required);
        compared += 1;
        // A pair matches once, under its first common token.
        return overlap >= required && !meet_before(work, pair);
    });
}
