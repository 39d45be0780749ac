// The filter by products of integers of warps: as that of halves (vector_products.cuh), but that sums
// begin with the terms of the columns.
#pragma once

#include "vector_integers.cuh"
#include "vector_products.cuh"

#ifdef HAS_MATRIX_PRODUCTS
struct IntegerNumbers {
    using Sum = int;
    using Bounds = SumBounds;

    __device__ __forceinline__ static Sum first(const VectorWork &work, u32 column) {
        return __ldg(&terms_of(work.columns, work.steps)[column - work.columns.first]);
    }

    __device__ __forceinline__ static void add(Sum *sums, const u32 (&rows)[4], const u32 (&columns)[2]) {
        add_integers_of_warp(sums, rows, columns);
    }

    __device__ __forceinline__ static const void *of_row(const VectorWork &work, u32 row, u32 chunk) {
        const HalfLayout layout(work.rows.padded, work.steps, 0);
        return static_cast<const char *>(work.rows.numbers) + layout.place(row - work.rows.first, chunk);
    }

    template <class Unit>
    __device__ __forceinline__ static Bounds bounds(const VectorWork &work, const Unit &unit, u32 place, float) {
        return sum_bounds_of(work.rows)[unit.unit.first_row + place - work.rows.first];
    }

    __device__ __forceinline__ static bool is_open(Sum sum, Bounds bounds) { return sum >= bounds.open; }
    __device__ __forceinline__ static bool is_sure(Sum sum, Bounds bounds) { return sum >= bounds.sure; }
};
#endif
