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

    // Eight words of a step of a row, as a lane of a warp has them of each of its rows.
    __device__ __forceinline__ void row_fragment(u32 step, u32 (&a)[4]) const {
        const u32 first = step * 8 + lane_id() % 4;
        a[0] = a[1] = row_word(first);
        a[2] = a[3] = row_word(first + 4);
    }

    // The error of a sum over some steps, relative to the magnitudes of the products and to the steps.
    __device__ __forceinline__ double error(float sum, u32 steps) const {
        double exact = 0;
        double magnitude = 0;
        for (u32 i = 0; i < 16 * steps; ++i) {
            const double product = double{number_of(row(i))} * number_of(column(i));
            exact += product;
            magnitude += fabs(product);
        }
        return fabs(sum - exact) / (magnitude * steps);
    }
};

// Finds the greatest error of a step; `sum_of` sums the products of hard vectors over some steps. By all
// threads of a block.
template <class Sum>
__device__ __forceinline__ void probe(const Probe &probe, Sum sum_of) {
    double greatest = 0;
    for (u32 shift = HardVectors::SHIFTS[0]; shift <= HardVectors::SHIFTS[1]; ++shift) {
        for (u32 form = 0; form < HardVectors::FORMS; ++form) {
            const HardVectors vectors{shift, form};
            for (u32 steps = 1; steps <= probe.steps; steps *= 2) {
                greatest = max(greatest, vectors.error(sum_of(vectors, steps), steps));
            }
        }
    }
    if (threadIdx.x == 0) {
        *probe.greatest = greatest;
    }
}

// By one warp.
__device__ __forceinline__ void probe_warp(const Probe &of) {
    probe(of, [](const HardVectors &vectors, u32 steps) {
        float sums[4] = {};
        for (u32 step = 0; step < steps; ++step) {
            u32 a[4];
            vectors.row_fragment(step, a);
            const u32 first = step * 8 + lane_id() % 4;
            const u32 b[2] = {vectors.column_word(first), vectors.column_word(first + 4)};
            add_halves_of_warp(sums, a, b);
        }
        return sums[0];
    });
}
#endif

#ifdef HAS_WARPGROUP_PRODUCTS
// By one warpgroup.
__device__ __forceinline__ void probe_warpgroup(const Probe &of) {
    alignas(128) __shared__ u32 columns[HALF_COLUMNS * 8];
    probe(of, [](const HardVectors &vectors, u32 steps) {
        float sums[HALF_SUMS] = {};
        for (u32 step = 0; step < steps; ++step) {
            __syncthreads();
            for (u32 i = threadIdx.x; i < HALF_COLUMNS * 8; i += blockDim.x) {
                // Octets of two chunks of four words.
                columns[i] = vectors.column_word(step * 8 + i / 32 % 2 * 4 + i % 4);
            }
            publish_writes();
            __syncthreads();
            u32 a[4];
            vectors.row_fragment(step, a);
            begin_products();
            add_halves(sums, a, SharedHalves{columns, STEP_CHUNKS}, true);
            end_products();
        }
        return sums[0];
    });
}
#endif
