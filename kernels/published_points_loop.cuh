// The published nested loop (Böhm, Noll, Plant, Zherdin: Density-based clustering and similarity join on
// graphics processors, BTW 2009), to compare with: a thread has a row, and a block's threads read the
// same columns from shared memory. Distances only. The differences are summed in f32, and f64 decides
// what that leaves open.
//
// A difference, rounded twice at most, is squared and added d times: the sum's relative error is below
// (d + 8) 2⁻²³, and what underflows is below d 2⁻¹⁴⁸.
#pragma once

#include "vector_units.cuh"

struct LoopShape {
    static constexpr u32 THREADS = 128;
    static constexpr u32 ROWS = THREADS;
    static constexpr u32 COLUMNS = 32;
    // Dimensions in shared memory at a time.
    static constexpr u32 DIMENSIONS = 4;
};

// The squares below which a pair matches, and above which it does not.
struct SquareBounds {
    float near;
    float far;

    __device__ __forceinline__ explicit SquareBounds(const VectorWork &work) {
        const double error = (work.dimensions + 8.0) / (1 << 23);
        const double tiny = work.dimensions * 1e-44;
        const double square = work.bound * work.bound;
        const bool is_usual = work.bound > 0 && square < 1e37 && error < 0.1;
        near = is_usual ? __double2float_rd(square * (1 - error) - tiny) : 0;
        far = is_usual ? __double2float_ru(square * (1 + error) + tiny) : infinity<float>();
    }
};

// Number i of a vector; zero beyond its dimensions.
template <class Number>
__device__ __forceinline__ Number number_at(const VectorSide &side, u32 vector, u32 i, u32 dimensions) {
    if (i >= dimensions) {
        return 0;
    }
    const u64 at = u64{vector - side.first} * dimensions + i;
    return side.wide ? static_cast<Number>(__ldg(static_cast<const double *>(side.values) + at))
                     : static_cast<Number>(__ldg(static_cast<const float *>(side.values) + at));
}

// Whether a vector matches anything.
__device__ __forceinline__ bool may_match(const VectorSide &side, u32 vector) {
    return side.bounds[vector - side.first].reject < infinity<float>();
}

// `Number`: double, or float where no side is wide.
template <class Number>
__device__ __forceinline__ void filter_by_loop(const VectorWork &work) {
    using Shape = LoopShape;
    __shared__ OpenUnit<Shape::ROWS> unit;
    __shared__ Number columns[Shape::COLUMNS][Shape::DIMENSIONS];
    const SquareBounds bounds(work);
    test_units(work, unit, Shape::THREADS, [&](HitRoom &room, u32 stage) {
        const u32 row = unit.unit.first_row + threadIdx.x;
        // Numbers are read of rows and columns that count alone.
        const bool counts = unit.low[threadIdx.x] < unit.high[threadIdx.x] && may_match(work.rows, row);
        const u32 first = work.stage_of(unit.unit, stage) * Shape::COLUMNS;
        const u32 own = first + lane_id();
        const u32 counting = __ballot_sync(ALL_LANES, own < work.column_count && may_match(work.columns, own));
        float squares[Shape::COLUMNS] = {};
        for (u32 i = 0; i < work.dimensions; i += Shape::DIMENSIONS) {
            __syncthreads();
            for (u32 at = threadIdx.x; at < Shape::COLUMNS * Shape::DIMENSIONS; at += Shape::THREADS) {
                const u32 column = first + at / Shape::DIMENSIONS;
                const u32 dimension = i + at % Shape::DIMENSIONS;
                columns[at / Shape::DIMENSIONS][at % Shape::DIMENSIONS] =
                    column < work.column_count ? number_at<Number>(work.columns, column, dimension, work.dimensions)
                                               : Number{0};
            }
            Number numbers[Shape::DIMENSIONS];
#pragma unroll
            for (u32 k = 0; k < Shape::DIMENSIONS; ++k) {
                numbers[k] = counts ? number_at<Number>(work.rows, row, i + k, work.dimensions) : Number{0};
            }
            __syncthreads();
#pragma unroll
            for (u32 column = 0; column < Shape::COLUMNS; ++column) {
#pragma unroll
                for (u32 k = 0; k < Shape::DIMENSIONS; ++k) {
                    const auto off = static_cast<float>(numbers[k] - columns[column][k]);
                    squares[column] = fmaf(off, off, squares[column]);
                }
            }
        }
        u32 open[1] = {};
        u32 sure[1] = {};
#pragma unroll
        for (u32 column = 0; column < Shape::COLUMNS; ++column) {
            // What is no number is open.
            open[0] |= static_cast<u32>(!(squares[column] > bounds.far)) << column;
            sure[0] |= static_cast<u32>(squares[column] < bounds.near) << column;
        }
        open[0] &= counts ? counting : 0;
        if (__any_sync(ALL_LANES, open[0] != 0)) {
            const u32 place = threadIdx.x << 16 | stage * Shape::COLUMNS;
            room.give(work, unit, open, sure, 1, [=](u32, u32 bit) { return place + bit; });
        }
    });
}
