// Vectors of 8-bit integers, whose products are exact: distances and inner products, where the columns
// are vectors of integers -128 .. 127, or are once a centre of integers has been subtracted (distances
// only).
//
// A vector has 32 * `steps` integers, the least multiple of 32 from d on: its numbers, less the centre,
// and zeros; chunks of 16 lie as those of halves do (vector_abi.cuh, not blocked). Behind those of all
// vectors lies, for each, the term that sums of products with it as a column begin with. With
// a = Σx̂ᵢ², b = Σyᵢ², p = Σx̂ᵢyᵢ, the squared distance of x̂ and a column y is s = a + b - 2p.
//
//   Distances: a column's term is -⌊b/2⌋, so that a sum c is p - ⌊b/2⌋, and s = a + (b mod 2) - 2c.
//   So s <= T only where c >= ⌈(a - T)/2⌉, and always where c >= ⌈(a + 1 - T)/2⌉: the two differ by one
//   at most. For vectors of integers T is the greatest integer whose square root is within the bound.
//   Inner products: a column's term is 0; p >= ⌈bound⌉.
//
// A row x need not be such a vector: x̂ is x less the centre, each number rounded to the nearest of
// -128 .. 127, and r a bound on its distance from x̂. Distances from x and from x̂ differ by r at most,
// so that T is, for what may match, above (bound + r)², and below (bound - r)² for what does. Inner products
// differ by r‖y‖ at most. A row whose distance from the cube of all columns exceeds the bound matches
// nothing.
#pragma once

#include "integer_products.cuh"
#include "vector_bounds.cuh"
#include "vector_prepare.cuh"

constexpr double LEAST_INTEGER = -128;
constexpr double GREATEST_INTEGER = 127;
// What no squared distance reaches, nor any sum in magnitude: vectors have at most 4096 dimensions. Less
// than what is missing between a column that matches nothing and any threshold.
constexpr int ALL_SUMS = 1 << 28;
constexpr int ABSENT_TERM = -(1 << 30);

// The sums from which on the pairs of a row may match, and do.
struct SumBounds {
    int open;
    int sure;
};

// Which numbers vectors have (vectors_range).
struct Ranging {
    // As in Preparing.
    const void *values;
    const u32 *present;
    // Found: zeros at first.
    struct NumberRange *range;
    u32 count;
    u32 dimensions;
    u32 wide;
    u32 reserved;
};

// Numbers from RANGE_OFFSET - below to above - RANGE_OFFSET, where both are not 0.
struct NumberRange {
    u32 below;
    u32 above;
    // Whether there are others than integers of smaller magnitude than RANGE_OFFSET.
    u32 others;
    u32 reserved;
};

constexpr u32 RANGE_OFFSET = 1u << 20;

static_assert(sizeof(Ranging) == 40 && sizeof(NumberRange) == 16, "as in vector/abi.rs");

template <class Number>
__device__ __forceinline__ void find_range(const Ranging &ranging) {
    constexpr double OFFSET = RANGE_OFFSET;
    u32 below = 0;
    u32 above = 0;
    u32 others = 0;
    const u32 lane = lane_id() % SHARING_LANES;
    const u32 step = gridDim.x * blockDim.x / SHARING_LANES;
    const u32 first = (blockIdx.x * blockDim.x + threadIdx.x) / SHARING_LANES;
    for (u32 vector = first; vector < ranging.count; vector += step) {
        if (ranging.present && (__ldg(&ranging.present[vector / 32]) >> vector % 32 & 1) == 0) {
            continue;
        }
        const Number *numbers = static_cast<const Number *>(ranging.values) + u64{vector} * ranging.dimensions;
        for (u32 i = lane; i < ranging.dimensions; i += SHARING_LANES) {
            const Number number = __ldg(&numbers[i]);
            if (fabs(number) < OFFSET && rint(number) == number) {
                const int integer = static_cast<int>(number);
                below = max(below, static_cast<u32>(static_cast<int>(RANGE_OFFSET) - integer));
                above = max(above, static_cast<u32>(static_cast<int>(RANGE_OFFSET) + integer));
            } else {
                others = 1;
            }
        }
    }
    if (below > 0) {
        atomicMax(&ranging.range->below, below);
        atomicMax(&ranging.range->above, above);
    }
    if (others != 0) {
        atomicOr(&ranging.range->others, 1u);
    }
}

// The greatest integer whose square root, as a double, is at most `bound` in DataFusion's order.
__device__ __forceinline__ int greatest_square(double bound) {
    if (__double_as_longlong(bound) < 0) {
        return -1;
    }
    if (!(bound < 16384)) {
        return ALL_SUMS;
    }
    int square = static_cast<int>(bound * bound);
    while (__dsqrt_rn(square) > bound) {
        --square;
    }
    while (__dsqrt_rn(square + 1) <= bound) {
        ++square;
    }
    return square;
}

// An integer within ALL_SUMS of 0.
__device__ __forceinline__ int clipped_integer(double number) {
    return static_cast<int>(min(max(number, -1.0 * ALL_SUMS), 1.0 * ALL_SUMS));
}

// Sums over the numbers of a vector.
struct IntegerSums {
    // a; ‖x‖²; what x̂ differs by: all of it, and that outside of the cube.
    double square = 0;
    double given = 0;
    double off = 0;
    double outside = 0;
    // NaN, which are left out of the others (vector_bounds.cuh).
    Sums of_nan;

    __device__ __forceinline__ static SumBounds none() { return SumBounds{ALL_SUMS, ALL_SUMS}; }

    __device__ __forceinline__ SumBounds bounds(const Preparing &preparing) const {
        if (of_nan.nans > 0 && of_nan.misses(preparing.nan_misses)) {
            return none();
        }
        if (!(given <= MOST_SQUARE) || of_nan.nans > 0) {
            return SumBounds{-ALL_SUMS, ALL_SUMS};
        }
        const double radius = sqrt(off) * (1 + SUMS);
        return preparing.metric == EUCLIDEAN ? of_distances(preparing.bound, radius)
                                             : of_products(preparing, radius);
    }

private:
    __device__ __forceinline__ SumBounds of_distances(double bound, double radius) const {
        int most = 0;
        int least = 0;
        if (radius == 0) {
            most = least = greatest_square(bound);
        } else {
            const double reach = max(bound, 0.0);
            if (sqrt(outside) * (1 - SUMS) > reach * (1 + SUMS)) {
                return none();
            }
            const double far = reach + radius;
            const double near = reach - radius;
            most = clipped_integer(far * far * (1 + SUMS) + 1);
            least = near > 0 ? clipped_integer(near * near * (1 - SUMS) - 1) : -1;
        }
        const int integer = static_cast<int>(square);
        // Shifts round down.
        return SumBounds{(integer - most + 1) >> 1, (integer - least + 2) >> 1};
    }

    __device__ __forceinline__ SumBounds of_products(const Preparing &preparing, double radius) const {
        const double bound = preparing.bound;
        if (radius == 0) {
            const int least = clipped_integer(ceil(bound));
            return SumBounds{least, least};
        }
        const double spread = (radius + sqrt(given) * SUMS) * sqrt(1.0 * preparing.dimensions) * 128 * (1 + SUMS);
        return SumBounds{clipped_integer(floor(bound - spread)), clipped_integer(ceil(bound + spread) + 1)};
    }
};

// Eight lanes prepare a vector, each some of its chunks. By all lanes of a warp.
template <class Number>
__device__ __forceinline__ void prepare_integers(const Preparing &preparing, u32 vector) {
    const HalfLayout layout(preparing.padded, preparing.steps, 0);
    const GivenVector<Number> from(preparing, vector);
    const bool is_one = is_vector(preparing, vector);
    const u32 lane = lane_id() % SHARING_LANES;
    IntegerSums sums;
    for (u32 chunk = lane; chunk < layout.chunks; chunk += SHARING_LANES) {
        u32 words[4] = {};
        for (u32 place = 0; is_one && place < CHUNK_INTEGERS; ++place) {
            const u32 i = chunk * CHUNK_INTEGERS + place;
            if (i < from.dimensions) {
                const double given = from.number(i);
                if (given != given) {
                    sums.of_nan.add_nan(given);
                    continue;
                }
                const double exact = from.moved(i);
                const double within = min(max(exact, LEAST_INTEGER), GREATEST_INTEGER);
                const double rounded = rint(within);
                const double off = fabs(exact - rounded);
                // Zero for integers alone, also once it is squared.
                const double error = off == 0 && rint(given) == given ? 0.0 : off + fabs(exact) * SINGLE + 1e-150;
                const double outside = exact - within;
                const int integer = static_cast<int>(rounded);
                sums.square += integer * integer;
                sums.given += given * given;
                sums.off += error * error;
                sums.outside += outside * outside;
                words[place / WORD_INTEGERS] |= (static_cast<u32>(integer) & 0xff) << place % WORD_INTEGERS * 8;
            }
        }
        *reinterpret_cast<uint4 *>(static_cast<char *>(preparing.numbers) + layout.place(vector, chunk)) =
            uint4{words[0], words[1], words[2], words[3]};
    }
    sums.square = sum_of_lanes<SHARING_LANES>(sums.square);
    sums.given = sum_of_lanes<SHARING_LANES>(sums.given);
    sums.off = sum_of_lanes<SHARING_LANES>(sums.off);
    sums.outside = sum_of_lanes<SHARING_LANES>(sums.outside);
    sums.of_nan.given = sums.given;
    sums.of_nan.nans = sum_of_lanes<SHARING_LANES>(sums.of_nan.nans);
    if (lane == 0) {
        const bool is_distance = preparing.metric == EUCLIDEAN;
        const int term = is_distance ? -(static_cast<int>(sums.square) >> 1) : 0;
        auto *terms = reinterpret_cast<int *>(static_cast<char *>(preparing.numbers) + layout.end());
        terms[vector] = is_one ? term : ABSENT_TERM;
        if (preparing.tails) {
            static_cast<SumBounds *>(preparing.tails)[vector] =
                is_one ? sums.bounds(preparing) : IntegerSums::none();
        }
        preparing.bounds[vector] = VectorBounds{is_one ? 0 : infinity<float>(), 0};
    }
}

template <class Number>
__device__ __forceinline__ void prepare_integers(const Preparing &preparing) {
    const u32 step = gridDim.x * blockDim.x / SHARING_LANES;
    const u32 first = (blockIdx.x * blockDim.x + threadIdx.x) / SHARING_LANES;
    for (u32 vector = first; vector < preparing.padded; vector += step) {
        prepare_integers<Number>(preparing, vector);
    }
}

// The terms of columns, by column from the first of the array on.
__device__ __forceinline__ const int *terms_of(const VectorSide &side, u32 steps) {
    return reinterpret_cast<const int *>(static_cast<const char *>(side.numbers) +
                                         HalfLayout(side.padded, steps, 0).end());
}

__device__ __forceinline__ const SumBounds *sum_bounds_of(const VectorSide &side) {
    return static_cast<const SumBounds *>(side.tails);
}
