// The published index (Böhm, Noll, Plant, Zherdin, BTW 2009, section 5), to compare with: the columns
// lie in a directory of three levels of 16 blocks each, by quantiles of a dimension a level. A thread has
// a row: it walks the blocks within the bound and tests the columns of the last level. Distances of
// columns that are finite, counted. Differences are summed in f32, as in the published nested loop, and
// f64 decides what that leaves open.
//
// A unit's columns are those of its stages, which follow each other.
#pragma once

#include "published_points_loop.cuh"
#include "vector_decide.cuh"

constexpr u32 DIRECTORY_WAYS = 16;
constexpr u32 DIRECTORY_LEVELS = 3;
constexpr u32 DIRECTORY_LEAVES = DIRECTORY_WAYS * DIRECTORY_WAYS * DIRECTORY_WAYS;
constexpr u32 DIRECTORY_BLOCKS = DIRECTORY_WAYS + DIRECTORY_WAYS * DIRECTORY_WAYS + DIRECTORY_LEAVES;

// The least and the greatest number of the columns of a block, in its level's dimension. Of a block without
// columns: infinity and minus infinity.
struct DirectoryExtent {
    double least;
    double greatest;
};

// In VectorWork::stages.
struct Directory {
    // Those of the first level, then of the second, then of the third.
    DirectoryExtent extents[DIRECTORY_BLOCKS];
    // The dimension of each level.
    u32 dimensions[4];
    // Where the columns of a block of the third level begin in `columns`; those behind the last.
    u32 starts[DIRECTORY_LEAVES + 8];
    u32 columns[1];
};

static_assert(sizeof(DirectoryExtent) == 16, "as in simjoin-published/src/points/directory.rs");
static_assert(sizeof(Directory) == DIRECTORY_BLOCKS * 16 + (DIRECTORY_LEAVES + 8 + 4 + 1) * 4 + 4,
              "as in simjoin-published/src/points/directory.rs");

// A row on its way through the directory.
template <class Number>
struct DirectoryWalk {
    const VectorWork &work;
    const Directory &directory;
    const SquareBounds bounds;
    // No difference in a dimension that exceeds it is within the bound.
    double reach;
    u32 row = 0;
    // Its columns: from `low` to in front of `high`.
    u32 low = 0;
    u32 high = 0;
    double numbers[DIRECTORY_LEVELS];
    u32 leaf = DIRECTORY_LEAVES;
    u32 at = 0;
    u32 end = 0;
    u64 tests = 0;

    __device__ __forceinline__ explicit DirectoryWalk(const VectorWork &work)
        : work(work), directory(*reinterpret_cast<const Directory *>(work.stages)), bounds(work),
          // Below, squares may vanish.
          reach(max(work.bound * (1 + 1e-9), 1e-140)) {}

    __device__ __forceinline__ void begin(const VectorUnit &unit) {
        row = unit.first_row + threadIdx.x;
        leaf = DIRECTORY_LEAVES;
        at = end = 0;
        if (threadIdx.x >= work.strip_rows || row < work.first_row || row >= work.end_row) {
            return;
        }
        const VectorRun run = run_before(work.runs, work.run_count, row);
        const u32 first = max(run.start, unit.first_stage * work.stage_columns);
        low = work.same ? max(first, row) : first;
        high = min(min(run.end, work.column_count), (unit.first_stage + unit.stages) * work.stage_columns);
        if (low >= high || !may_match(work.rows, row)) {
            return;
        }
#pragma unroll
        for (u32 level = 0; level < DIRECTORY_LEVELS; ++level) {
            numbers[level] = number_at<double>(work.rows, row, directory.dimensions[level], work.dimensions);
        }
        for (u32 i = 0; i < work.dimensions; ++i) {
            // No block is out of the reach of a row that is not finite: its distances may be no numbers.
            const double number = number_at<double>(work.rows, row, i, work.dimensions);
            if (!(fabs(number) < infinity<double>())) {
                numbers[0] = numbers[1] = numbers[2] = number - number;
            }
        }
        leaf = 0;
    }

    // Goes on to the next column that may match; false where there is none.
    __device__ __forceinline__ bool next(u32 &column, bool &sure) {
        while (true) {
            for (; at < end; ++at) {
                column = __ldg(&directory.columns[at]);
                if (column >= low && column < high && test(column, sure)) {
                    ++at;
                    return true;
                }
            }
            if (!enter()) {
                return false;
            }
        }
    }

private:
    __device__ __forceinline__ bool is_out(u32 block, u32 level) const {
        const DirectoryExtent &extent = directory.extents[block];
        return extent.least - numbers[level] > reach || numbers[level] - extent.greatest > reach;
    }

    // Enters the next block of the last level that is within reach.
    __device__ __forceinline__ bool enter() {
        while (leaf < DIRECTORY_LEAVES) {
            constexpr u32 SECOND = DIRECTORY_WAYS * DIRECTORY_WAYS;
            if (leaf % SECOND == 0 && is_out(leaf / SECOND, 0)) {
                leaf += SECOND;
            } else if (leaf % DIRECTORY_WAYS == 0 && is_out(DIRECTORY_WAYS + leaf / DIRECTORY_WAYS, 1)) {
                leaf += DIRECTORY_WAYS;
            } else if (is_out(DIRECTORY_WAYS + SECOND + leaf, 2)) {
                ++leaf;
            } else {
                at = __ldg(&directory.starts[leaf]);
                end = __ldg(&directory.starts[leaf + 1]);
                ++leaf;
                return true;
            }
        }
        return false;
    }

    __device__ __forceinline__ bool test(u32 column, bool &sure) {
        float square = 0;
        for (u32 i = 0; i < work.dimensions; ++i) {
            const auto off = static_cast<float>(number_at<Number>(work.rows, row, i, work.dimensions) -
                                                number_at<Number>(work.columns, column, i, work.dimensions));
            square = fmaf(off, off, square);
        }
        ++tests;
        sure = square < bounds.near;
        // What is no number is open.
        return !(square > bounds.far);
    }
};

template <class Number>
__device__ __forceinline__ void count_by_directory(const VectorWork &work) {
    __shared__ WaitingPair pairs[VECTOR_DECIDING_WARPS * WAITING_PAIRS];
    __shared__ u32 taken;
    VectorDecider<VectorCount> decider(work, pairs);
    DirectoryWalk<Number> walk(work);
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) {
            taken = atomicAdd(&work.tally->next, 1u);
        }
        __syncthreads();
        if (taken >= work.unit_count) {
            break;
        }
        walk.begin(work.units[taken]);
        bool is_under_way = true;
        while (true) {
            u32 column = 0;
            bool sure = false;
            is_under_way = is_under_way && walk.next(column, sure);
            if (!__any_sync(ALL_LANES, is_under_way)) {
                break;
            }
            decider.take(is_under_way, sure, walk.row, column);
        }
    }
    const u64 tests = sum_of_lanes<WARP>(walk.tests);
    if (lane_id() == 0) {
        atomicAdd(&work.tally->tests, tests);
    }
    decider.finish();
}
