// Matches by overlaps: every pair of a row and a column is decided by its key and by the measure itself.
// Some rows are decided at a time, where there is room for all their pairs.
#pragma once

#include "answers.cuh"
#include "large_abi.cuh"
#include "runs.cuh"

// The measure of a row and a column: the host's expression, operation by operation.
__device__ __forceinline__ double value_of(const LargeWork &work, u64 overlap, u64 row, u64 column) {
    const u64 a = work.second ? column : row;
    const u64 b = work.second ? row : column;
    const double common = static_cast<double>(overlap);
    switch (work.measure) {
    case JACCARD:
        return __ddiv_rn(common, static_cast<double>(a + b - overlap));
    case DICE:
        return __ddiv_rn(static_cast<double>(2 * overlap), static_cast<double>(a + b));
    case COSINE_OF_SETS:
        return __ddiv_rn(common, __dsqrt_rn(static_cast<double>(a * b)));
    case OVERLAP:
        return common;
    case OVERLAP_COEFFICIENT:
        return __ddiv_rn(common, static_cast<double>(min(a, b)));
    default:
        return __ddiv_rn(common, static_cast<double>(a));
    }
}

// Notes the rows that are next as the first without room, unless there is room. By one thread.
__device__ __forceinline__ void admit_rows(const LargeWork &work) {
    const u64 cells = u64{work.decided_count} * work.column_count;
    if (work.tally->stopped == 0 && work.tally->found.matches + cells > work.capacity) {
        work.tally->stopped = work.decided_first + 1;
    }
}

// For one of the answers of answers.cuh.
template <class Answer>
__device__ __forceinline__ void decide_overlaps(const LargeWork &work) {
    if (work.tally->stopped != 0) {
        return;
    }
    Answer answer(work);
    const u64 cells = u64{work.decided_count} * work.column_count;
    const u64 threads = u64{gridDim.x} * blockDim.x;
    // The lanes of a warp go on in step, so that they append together.
    const u64 first = u64{blockIdx.x} * blockDim.x + warp_id() * WARP;
    for (u64 base = first; base < cells; base += threads) {
        const u64 cell = base + lane_id();
        const u32 r = work.decided_first + static_cast<u32>(cell / work.column_count);
        const u32 c = static_cast<u32>(cell % work.column_count);
        const u32 overlap = cell < cells ? __ldg(&work.overlaps[u64{r} * work.column_count + c]) : 0;
        const u32 row = work.first_row + r;
        const u32 column = work.first_column + c;
        bool matches = false;
        if (overlap > 0 && work.meets(r, c)) {
            const LargeRun run = run_before(work.runs, work.run_count, row);
            matches = column >= run.start && column < run.end &&
                      value_of(work, overlap, __ldg(&work.row_sizes[r]), __ldg(&work.column_sizes[c])) >= work.threshold;
            if (matches && work.seen) {
                matches = atomicExch(&work.seen[r], 1u) == 0;
            }
        }
        answer.push(matches, row, column, overlap);
    }
    answer.finish();
}
