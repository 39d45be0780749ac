// How a device rounds sums of products of halves. The bounds of vectors_mma take its error for granted
// (MMA_ROUNDING), so a host asks devices that nobody has looked at.
#pragma once

#include "half_products.cuh"

#ifdef HAS_MATRIX_PRODUCTS
// Vectors whose products are hard to sum: great ones first, then many just too small to be kept whole.
struct HardVectors {
    // Small products are about 2^-shift.
    u32 shift;
    // 0: one great product; 1: a negative one; 2: two that cancel.
    u32 form;

    static constexpr u32 SHIFTS[2] = {16, 26};
    static constexpr u32 FORMS = 3;

    // Number i of a row, and of a column, as a half.
    __device__ __forceinline__ u32 row(u32 i) const {
        const bool is_negative = i == (form == 2 ? 1u : 0u) && form > 0;
        // Nearly twice a power of two.
        return is_great(i) ? (is_negative ? 0xbc00 : 0x3c00) : (14 - shift / 2) << 10 | 0x3ff;
    }

    __device__ __forceinline__ u32 column(u32 i) const {
        return is_great(i) ? 0x3c00 : (15 - (shift - shift / 2)) << 10;
    }

    __device__ __forceinline__ bool is_great(u32 i) const { return i < (form == 2 ? 2u : 1u); }

    // Halves 2 * word and 2 * word + 1.
    __device__ __forceinline__ u32 row_word(u32 word) const { return row(2 * word) | row(2 * word + 1) << 16; }
    __device__ __forceinline__ u32 column_word(u32 word) const { return column(2 * word) | column(2 * word + 1) << 16; }

    // The error of the sum over some steps, relative to the magnitudes of the products and to the steps.
    // By all lanes of a warp.
    __device__ __forceinline__ double error(u32 steps) const {
        float sums[4] = {};
        double exact = 0;
        double magnitude = 0;
        for (u32 step = 0; step < steps; ++step) {
            const u32 first = step * 8 + lane_id() % 4;
            const u32 a[4] = {row_word(first), row_word(first), row_word(first + 4), row_word(first + 4)};
            const u32 b[2] = {column_word(first), column_word(first + 4)};
            add_halves_of_warp(sums, a, b);
            for (u32 i = 16 * step; i < 16 * step + 16; ++i) {
                const double product = double{number_of(row(i))} * number_of(column(i));
                exact += product;
                magnitude += fabs(product);
            }
        }
        return fabs(sums[0] - exact) / (magnitude * steps);
    }
};

// Finds the greatest error of a step. By one warp.
__device__ __forceinline__ void probe(const Probe &probe) {
    double greatest = 0;
    for (u32 shift = HardVectors::SHIFTS[0]; shift <= HardVectors::SHIFTS[1]; ++shift) {
        for (u32 form = 0; form < HardVectors::FORMS; ++form) {
            for (u32 steps = 1; steps <= probe.steps; steps *= 2) {
                greatest = max(greatest, HardVectors{shift, form}.error(steps));
            }
        }
    }
    if (lane_id() == 0) {
        *probe.greatest = greatest;
    }
}
#endif
