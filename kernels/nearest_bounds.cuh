// Bounds that the products of nearest vectors prove.
//
// x̂, X, r(x), CAP, UNIT and the error of sums of products are those of vector_bounds.cuh. Distances have one
// scale. A cosine distance is half the square of the distance of two vectors of norm 1: those are scaled
// by UNIT.
//
// Six places of both vectors have -½‖x̂‖² of one and ones of the other, so the sum of products c is
// -½‖x̂ - ŷ‖² within E = 2 (γN + 2⁻²²) and a rounding of N, with N the greatest ‖x̂‖². With R the greatest r(x) and
// D = ‖X - Y‖,
//
//     √(2(-c - E)) - 2R <= D <= √(2(-c + E)) + 2R
//
// Bound: k columns with sums of at least c have distances of at most B(c) = √(2(-c + E)) + 2R, and so have the k
// nearest. Every column whose value is at most that of one of them has a distance of at most W(B(c)),
// where W allows for the rounding of the function: relatively for distances, in squares for cosines. Its sum
// is at least L(W(B(c))), L(d) = -½(d + 2R)² - E. So from the k-th best sum of some columns follows the threshold
// of a row, and from that of all columns that pass it the pairs that f64 compares.
//
// Keys: the bits of a sum. Of negative floats the greater has the lower bits; positive ones, which are sums of
// equal or nearly equal vectors, lie below all of them.
//
// Integers of 8 bits (vector_integers.cuh): x̂ is X, so that R is 0. With a and b the squares of the norms of row and
// column, p their product and s the square of their distance, c is p - ⌊a/2⌋ - ⌊b/2⌋, an integer: -½s or up to 1 more, so
// that E is 1. In magnitude it is at most 2^23.2, as kernels have at most 288 dimensions, and exact as a float.
#pragma once

#include "nearest_abi.cuh"
#include "vector_bounds.cuh"
#include "vector_integers.cuh"
#include "vector_prepare.cuh"

// Keys of sums below these are of columns that are none. Sums of others are above -2^15.1 and -2^23.2.
constexpr float NO_SUM = -100000;
constexpr float NO_INTEGER_SUM = -(1 << 24);

__device__ __forceinline__ u32 key_of(float sum) { return __float_as_uint(sum); }

struct NearestErrors {
    double both_off;
    double error;
    // W(d) = √(relative d² + added).
    double relative;
    double added;

    __device__ __forceinline__ explicit NearestErrors(const NearestWork &work) {
        const double square = __uint_as_float(work.summary->most_square);
        const double dimensions = work.tiles.dimensions;
        both_off = 2.0 * __uint_as_float(work.summary->most_off);
        const double rest = work.integers ? 0.5 : 1.0 / (1 << 22);
        error = 2 * (work.gamma * square + 2 * SUMS * square + rest);
        const double rounding = (dimensions + 8) * SINGLE / 256;
        relative = work.tiles.metric == COSINE ? 1 + SUMS : 1 + 8 * rounding + SINGLE;
        added = work.tiles.metric == COSINE ? 8 * UNIT * UNIT * (4 * dimensions + 64) * SINGLE / 512 : 1e-60;
    }

    // The distance that a column may have whose value is at most that of one with this key.
    __device__ __forceinline__ double reach(u32 key) const {
        const double half = max(0.0, -static_cast<double>(__uint_as_float(key)));
        const double distance = sqrt(2 * (half + error)) * (1 + SUMS) + both_off;
        return sqrt(distance * distance * relative + added) * (1 + SUMS);
    }

    // The least sum of a column that is no farther.
    __device__ __forceinline__ float least_sum(double distance) const {
        const double far = distance + both_off;
        // A threshold is negative, so that keys of sums above it are those up to its own.
        return __double2float_rd(min(-(0.5 * far * far * (1 + SUMS) + error), -1e-30));
    }

    __device__ __forceinline__ float threshold(u32 key) const { return least_sum(reach(key)); }
};

// The vectors of a search, eight lanes for each.
template <class Number>
struct NearestPreparation {
    const NearestPreparing &given;
    const HalfLayout layout;
    double scale;
    u32 lane;
    // Of the vectors so far.
    float most_off = 0;
    float most_square = 0;
    u32 unusual = 0;

    __device__ __forceinline__ explicit NearestPreparation(const NearestPreparing &given)
        : given(given), layout(given.padded, given.steps, given.blocked), scale(1), lane(lane_id() % SHARING_LANES) {
        if (given.metric == EUCLIDEAN) {
            scale = scale_for(__longlong_as_double(static_cast<long long>(*given.greatest)));
        }
    }

    // By all lanes of a warp.
    __device__ __forceinline__ void prepare(u32 position) {
        const bool is_one = position < given.count;
        const u32 number = is_one && given.order ? given.order[position] : position;
        const Number *numbers = static_cast<const Number *>(given.values) + u64{number} * given.dimensions;
        double norm = 1;
        if (given.metric == COSINE) {
            double square = 0;
            for (u32 i = lane; is_one && i < given.dimensions; i += SHARING_LANES) {
                const auto of = static_cast<double>(numbers[i]);
                square += of * of;
            }
            norm = sqrt(sum_of_lanes<SHARING_LANES>(square));
        }
        Sums sums;
        Chunk8 end;
        const double factor = given.metric == COSINE ? UNIT / norm : scale;
        const u32 last = layout.chunks - 1;
        for (u32 chunk = lane; chunk <= last; chunk += SHARING_LANES) {
            const Chunk8 halves = is_one ? chunk_of(numbers, factor, chunk, sums) : Chunk8{};
            if (chunk + STEP_CHUNKS > last) {
                end = halves;
            }
            store(position, chunk, halves);
        }
        sums.given = sum_of_lanes<SHARING_LANES>(sums.given);
        sums.square = sum_of_lanes<SHARING_LANES>(sums.square);
        sums.error = sum_of_lanes<SHARING_LANES>(sums.error);
        sums.nans = sum_of_lanes<SHARING_LANES>(sums.nans);
        const bool has_norm = given.metric != COSINE || (norm >= 1e-130 && norm < 1e150);
        const bool is_usual = is_one && has_norm && sums.nans == 0 && sums.given <= MOST_SQUARE &&
                              sums.square <= CAP * CAP && given.dimensions <= MOST_DIMENSIONS;
        if (is_usual) {
            // The rounding of the norm.
            const double of_norm = given.metric == COSINE ? (given.dimensions + 8) * SINGLE : 0;
            most_off = max(most_off, __double2float_ru(sqrt(sums.error) * (1 + SUMS) + of_norm + 1e-40));
            most_square = max(most_square, __double2float_ru(sums.square * (1 + SUMS)));
        } else {
            // A vector of zeros has no cosine, and no neighbour.
            unusual += is_one && !(given.metric == COSINE && norm == 0) ? 1 : 0;
            for (u32 chunk = lane; chunk <= last; chunk += SHARING_LANES) {
                store(position, chunk, Chunk8{});
            }
        }
        const End bias{is_usual ? -0.5 * sums.square : NEVER_BIAS, 1};
        finish(position, is_usual ? end : Chunk8{}, bias);
    }

    // By all threads.
    __device__ __forceinline__ void report() const {
        raise(&given.tally->most_off, most_off);
        raise(&given.tally->most_square, most_square);
        // Eight lanes count each vector.
        const u32 all = sum_of_lanes<WARP>(lane == 0 ? unusual : 0);
        if (lane_id() == 0 && all > 0) {
            atomicAdd(&given.tally->unusual, all);
        }
    }

private:
    __device__ __forceinline__ Chunk8 chunk_of(const Number *numbers, double factor, u32 chunk, Sums &sums) const {
        Chunk8 halves;
        for (u32 place = 0; place < CHUNK_HALVES; ++place) {
            const u32 i = chunk * CHUNK_HALVES + place;
            if (i < given.dimensions) {
                const auto number = static_cast<double>(__ldg(&numbers[i]));
                if (number != number) {
                    sums.nans += 1;
                    continue;
                }
                const double exact = (given.centre ? number - __ldg(&given.centre[i]) : number) * factor;
                const u32 half = fabs(exact) < LEAST_HALF ? 0 : half_of(exact);
                const double rounded = number_of(half);
                const double off = fabs(rounded - exact) + fabs(exact) * SINGLE;
                halves.set(place, half);
                sums.given += number * number;
                sums.square += rounded * rounded;
                sums.error += off * off;
            }
        }
        return halves;
    }

    __device__ __forceinline__ void store(u32 position, u32 chunk, const Chunk8 &halves) const {
        halves.store(static_cast<char *>(given.numbers) + layout.place(position, chunk));
    }

    // The lanes that have the last two chunks write them as columns and as rows have them.
    __device__ __forceinline__ void finish(u32 position, const Chunk8 &end, const End &bias) const {
        const u32 last = layout.chunks - 1;
        for (u32 place = 0; place < STEP_CHUNKS; ++place) {
            const u32 chunk = last + 1 - STEP_CHUNKS + place;
            if (chunk % SHARING_LANES != lane) {
                continue;
            }
            const bool is_last = chunk == last;
            if (is_last) {
                store(position, chunk, biased(end, bias, false));
            }
            if (given.tails) {
                const Chunk8 row = is_last ? biased(end, bias, true) : end;
                row.store(static_cast<char *>(given.tails) + HalfLayout::within(position, place, STEP_CHUNKS));
            }
        }
    }

    // By all lanes of a warp. Bits of floats that are not negative are in their order.
    __device__ __forceinline__ static void raise(u32 *greatest, float value) {
        for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
            value = max(value, __shfl_xor_sync(ALL_LANES, value, static_cast<int>(distance)));
        }
        if (lane_id() == 0) {
            atomicMax(greatest, __float_as_uint(value));
        }
    }
};

template <class Number>
__device__ __forceinline__ void prepare_nearest(const NearestPreparing &given) {
    NearestPreparation<Number> preparation(given);
    const u32 step = gridDim.x * blockDim.x / SHARING_LANES;
    // A warp has four vectors, all of them below the multiple of eight or none.
    const u32 first = (blockIdx.x * blockDim.x + threadIdx.x) / SHARING_LANES;
    for (u32 position = first; position < given.padded; position += step) {
        preparation.prepare(position);
    }
    preparation.report();
}

// The same as integers of 8 bits, less a centre of integers.
template <class Number>
__device__ __forceinline__ void prepare_nearest_integers(const NearestPreparing &given) {
    const HalfLayout layout(given.padded, given.steps, 0);
    auto *terms = reinterpret_cast<int *>(static_cast<char *>(given.numbers) + layout.end());
    const u32 lane = lane_id() % SHARING_LANES;
    const u32 step = gridDim.x * blockDim.x / SHARING_LANES;
    const u32 first = (blockIdx.x * blockDim.x + threadIdx.x) / SHARING_LANES;
    u32 unusual = 0;
    for (u32 position = first; position < given.padded; position += step) {
        const bool is_one = position < given.count;
        const u32 number = is_one && given.order ? given.order[position] : position;
        const Number *numbers = static_cast<const Number *>(given.values) + u64{number} * given.dimensions;
        int square = 0;
        for (u32 chunk = lane; chunk < layout.chunks; chunk += SHARING_LANES) {
            u32 words[4] = {};
            for (u32 place = 0; is_one && place < CHUNK_INTEGERS; ++place) {
                const u32 i = chunk * CHUNK_INTEGERS + place;
                if (i < given.dimensions) {
                    const double exact = static_cast<double>(__ldg(&numbers[i])) - __ldg(&given.centre[i]);
                    const bool is_integer = exact >= LEAST_INTEGER && exact <= GREATEST_INTEGER && rint(exact) == exact;
                    const int integer = is_integer ? static_cast<int>(exact) : 0;
                    unusual += is_integer ? 0 : 1;
                    square += integer * integer;
                    words[place / WORD_INTEGERS] |= (static_cast<u32>(integer) & 0xff) << place % WORD_INTEGERS * 8;
                }
            }
            *reinterpret_cast<uint4 *>(static_cast<char *>(given.numbers) + layout.place(position, chunk)) =
                uint4{words[0], words[1], words[2], words[3]};
        }
        square = sum_of_lanes<SHARING_LANES>(square);
        if (lane == 0) {
            terms[position] = is_one ? -(square >> 1) : ABSENT_TERM;
        }
    }
    unusual = sum_of_lanes<WARP>(unusual);
    if (lane_id() == 0 && unusual > 0) {
        atomicAdd(&given.tally->unusual, unusual);
    }
}
