// A matrix of overlaps, of the rows of a work and the columns of a part. fgSSJoin counts common prefix
// tokens, a thread a row, and compares the tokens of all pairs that have one; sf-gSSJoin counts all
// common tokens, by atomic additions, and compares nothing.
#pragma once

#include "index_decide.cuh"

// The cells of a row.
__device__ __forceinline__ u32 *cells_of(const IndexWork &work, u32 number) {
    return work.cells + u64{number} * (work.part_end - work.part_first);
}

// A row of a matrix: the columns that are done are behind it.
__device__ __forceinline__ Row matrix_row(const IndexWork &work, u32 number) {
    Row row(work, number);
    row.start = max(row.start, row.state.from);
    row.state.from = 0;
    return row;
}

__device__ __forceinline__ void count_by_threads(const IndexWork &work) {
    const u64 step = u64{gridDim.x} * blockDim.x;
    u64 postings = 0;
    for (u64 number = u64{blockIdx.x} * blockDim.x + threadIdx.x; number < work.row_count; number += step) {
        const Row row = matrix_row(work, static_cast<u32>(number));
        u32 *cells = cells_of(work, static_cast<u32>(number));
        for (u32 place = 0; row.start < row.end && place < row.prefix; ++place) {
            const List list = row.list(work, place);
            for (u32 i = 0; i < list.length; ++i) {
                cells[__ldg(&work.postings.sets[list.begin + i]) - work.part_first] += 1;
            }
            postings += list.length;
        }
    }
    if (postings > 0) {
        atomicAdd(&work.tally->postings, postings);
    }
}

__device__ __forceinline__ void count_by_warps(const IndexWork &work) {
    const u32 step = gridDim.x * warps();
    u64 postings = 0;
    for (u32 number = blockIdx.x * warps() + warp_id(); number < work.row_count; number += step) {
        const Row row = matrix_row(work, number);
        u32 *cells = cells_of(work, number);
        for (u32 place = 0; row.start < row.end && place < row.prefix; ++place) {
            const List list = row.list(work, place);
            for (u32 i = lane_id(); i < list.length; i += WARP) {
                atomicAdd(&cells[__ldg(&work.postings.sets[list.begin + i]) - work.part_first], 1u);
            }
            postings += list.length;
        }
    }
    if (lane_id() == 0 && postings > 0) {
        atomicAdd(&work.tally->postings, postings);
    }
}

// A warp gathers the candidates of a row, with their overlaps where all tokens were counted. Only the
// room for them is looked at: the postings are read.
template <bool COUNTED>
__device__ __forceinline__ void gather_cells(const IndexWork &work) {
    each_row_of_warps(work, [&](const Row &row, u32 number, u64 &) {
        const u32 *cells = cells_of(work, number);
        const u32 start = max(row.start, row.state.from);
        for (u32 base = start; base < row.end; base += WARP) {
            const u32 column = base + lane_id();
            u32 overlap = 0;
            bool passes = false;
            if (column < row.end) {
                overlap = cells[column - work.part_first];
                const u32 required = required_of(work, row.run, __ldg(&work.classes[column]));
                passes = overlap > 0 && required != NO_OVERLAP && (!COUNTED || overlap >= required);
            }
            const IndexCandidate candidate{row.state.row, column, COUNTED ? overlap : 0, 0};
            if (!add_candidates(work, passes, candidate)) {
                if (lane_id() == 0) {
                    leave(work, RowState{row.state.row, 0, base});
                }
                return false;
            }
        }
        return true;
    });
}

// Gives the candidates that match, whose overlaps are counted.
template <class Answer>
__device__ __forceinline__ void decide_counted(const IndexWork &work) {
    decide_each<Answer>(work, [](const IndexCandidate &pair, u32 &overlap, u64 &) {
        overlap = pair.row_at;
        return true;
    });
}
