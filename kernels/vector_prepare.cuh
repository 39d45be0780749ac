// Vectors as the filter reads them.
#pragma once

#include "vector_bounds.cuh"
#include "warp.cuh"

// Lanes that share a vector.
constexpr u32 SHARING_LANES = 8;

// A vector as it was given.
template <class Number>
struct GivenVector {
    const Number *numbers;
    const double *centre;
    u32 dimensions;

    __device__ __forceinline__ GivenVector(const Preparing &preparing, u32 vector)
        : numbers(static_cast<const Number *>(preparing.values) + u64{vector} * preparing.dimensions),
          centre(preparing.metric == EUCLIDEAN ? preparing.centre : nullptr), dimensions(preparing.dimensions) {}

    __device__ __forceinline__ double number(u32 i) const { return static_cast<double>(__ldg(&numbers[i])); }

    __device__ __forceinline__ double moved(u32 i) const { return centre ? number(i) - __ldg(&centre[i]) : number(i); }
};

__device__ __forceinline__ bool is_vector(const Preparing &preparing, u32 vector) {
    return vector < preparing.count &&
           (!preparing.present || (__ldg(&preparing.present[vector / 32]) >> vector % 32 & 1) != 0);
}

// Raises the greatest norm of vectors that are not far from most. Eight lanes measure a vector.
template <class Number>
__device__ __forceinline__ void measure(const Preparing &preparing) {
    const u32 lane = lane_id() % SHARING_LANES;
    const u32 step = gridDim.x * blockDim.x / SHARING_LANES;
    double greatest = 0;
    const u32 first = (blockIdx.x * blockDim.x + threadIdx.x) / SHARING_LANES;
    for (u32 vector = first; vector < preparing.padded; vector += step) {
        double given = 0;
        double square = 0;
        if (is_vector(preparing, vector)) {
            const GivenVector<Number> from(preparing, vector);
            for (u32 i = lane; i < from.dimensions; i += SHARING_LANES) {
                const double number = from.number(i);
                const double moved = from.moved(i);
                given += number * number;
                square += moved * moved;
            }
        }
        given = sum_of_lanes<SHARING_LANES>(given);
        square = sum_of_lanes<SHARING_LANES>(square);
        const double norm = sqrt(square);
        if (given <= MOST_SQUARE && norm <= preparing.limit) {
            greatest = max(greatest, norm);
        }
    }
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        greatest = max(greatest, __shfl_xor_sync(ALL_LANES, greatest, static_cast<int>(distance)));
    }
    if (lane_id() == 0 && greatest > 0) {
        // Bits of numbers that are not negative are in their order.
        atomicMax(preparing.greatest, static_cast<u64>(__double_as_longlong(greatest)));
    }
}

// Three halves that add up to a number.
struct Pieces {
    u32 halves[3];

    __device__ __forceinline__ explicit Pieces(double number) {
        constexpr double MOST = 65504;
        for (u32 &half : halves) {
            half = half_of(min(max(number, -MOST), MOST));
            number -= number_of(half);
        }
    }
};

// The places of the last chunk that make products comparable with zero: what is a sum in one of two vectors
// meets the factor of the other.
__device__ __forceinline__ Chunk8 biased(Chunk8 chunk, const End &end, bool is_row) {
    const Pieces pieces(end.sum);
    const u32 factor = half_of(end.factor);
    for (u32 i = 0; i < 3; ++i) {
        chunk.set(2 + i, is_row ? pieces.halves[i] : factor);
        chunk.set(5 + i, is_row ? factor : pieces.halves[i]);
    }
    return chunk;
}

// Eight lanes prepare a vector, each some of its chunks.
template <class Number>
struct Preparation {
    const Preparing &preparing;
    const Frame frame;
    const HalfLayout layout;
    u32 lane;

    __device__ __forceinline__ explicit Preparation(const Preparing &preparing)
        : preparing(preparing), frame(preparing), layout(preparing.padded, preparing.steps, preparing.blocked),
          lane(lane_id() % SHARING_LANES) {}

    // The halves of a chunk, whose numbers are added to the sums.
    __device__ __forceinline__ Chunk8 chunk_of(const GivenVector<Number> &from, double factor, u32 chunk,
                                               Sums &sums) const {
        Chunk8 halves;
        for (u32 place = 0; place < CHUNK_HALVES; ++place) {
            const u32 i = chunk * CHUNK_HALVES + place;
            if (i < from.dimensions) {
                const double number = from.number(i);
                if (number != number) {
                    sums.add_nan(number);
                    continue;
                }
                const double exact = from.moved(i) * factor;
                const u32 half = fabs(exact) < LEAST_HALF ? 0 : half_of(exact);
                const double rounded = number_of(half);
                const double off = fabs(rounded - exact) + fabs(exact) * SINGLE;
                halves.set(place, half);
                sums.given += number * number;
                sums.exact += exact * exact;
                sums.square += rounded * rounded;
                sums.error += off * off;
            }
        }
        return halves;
    }

    __device__ __forceinline__ void store(u32 vector, u32 chunk, const Chunk8 &halves) const {
        halves.store(static_cast<char *>(preparing.numbers) + layout.place(vector, chunk));
    }

    // By all lanes of a warp.
    __device__ __forceinline__ void prepare(u32 vector) const {
        const GivenVector<Number> from(preparing, vector);
        const u32 last = layout.chunks - 1;
        Bias bias = Bias::never(frame.metric);
        // One of the last two chunks, by the lanes that have them.
        Chunk8 end;
        const bool is_one = is_vector(preparing, vector);
        double norm = 1;
        if (frame.metric != EUCLIDEAN) {
            double square = 0;
            for (u32 i = lane; is_one && i < from.dimensions; i += SHARING_LANES) {
                square += from.number(i) * from.number(i);
            }
            norm = sqrt(sum_of_lanes<SHARING_LANES>(square));
        }
        const double divisor = frame.metric == COSINE ? norm : 1;
        const double scale = frame.metric == INNER_PRODUCT ? frame.scale_of(norm) : frame.scale;
        const double factor = frame.metric == COSINE ? UNIT / divisor : scale;
        Sums sums;
        const auto write = [&](double by, Sums &to) {
            for (u32 chunk = lane; chunk <= last; chunk += SHARING_LANES) {
                const Chunk8 halves = is_one ? chunk_of(from, by, chunk, to) : Chunk8{};
                if (chunk + STEP_CHUNKS > last) {
                    end = halves;
                }
                store(vector, chunk, halves);
            }
        };
        write(factor, sums);
        sums.given = sum_of_lanes<SHARING_LANES>(sums.given);
        sums.exact = sum_of_lanes<SHARING_LANES>(sums.exact);
        sums.square = sum_of_lanes<SHARING_LANES>(sums.square);
        sums.error = sum_of_lanes<SHARING_LANES>(sums.error);
        sums.nans = sum_of_lanes<SHARING_LANES>(sums.nans);
        // A vector whose squares are zeros has no cosine.
        if (is_one && divisor != 0) {
            bias = bias_of(frame, sums, divisor, scale);
        }
        if (bias.is_far()) {
            Sums of_far;
            write(factor * (FAR_NORM / sqrt(sums.exact)), of_far);
        }
        const bool has_product = fabsf(bias.bounds.reject) < infinity<float>();
        if (!has_product) {
            for (u32 chunk = lane; chunk <= last; chunk += SHARING_LANES) {
                store(vector, chunk, Chunk8{});
            }
        }
        // The lanes that have the last two chunks write them as rows and as columns have them.
        for (u32 place = 0; place < STEP_CHUNKS; ++place) {
            const u32 chunk = last + 1 - STEP_CHUNKS + place;
            if (chunk % SHARING_LANES != lane) {
                continue;
            }
            const Chunk8 halves = has_product ? end : Chunk8{};
            const bool is_last = chunk == last;
            if (is_last) {
                store(vector, chunk, biased(halves, bias.column, false));
                preparing.bounds[vector] = bias.bounds;
            }
            if (preparing.tails) {
                const Chunk8 row = is_last ? biased(halves, bias.row, true) : halves;
                row.store(static_cast<char *>(preparing.tails) + HalfLayout::within(vector, place, STEP_CHUNKS));
            }
        }
    }
};

template <class Number>
__device__ __forceinline__ void prepare(const Preparing &preparing) {
    const Preparation<Number> preparation(preparing);
    const u32 step = gridDim.x * blockDim.x / SHARING_LANES;
    // A warp has four vectors, all of them below the multiple of eight or none.
    const u32 first = (blockIdx.x * blockDim.x + threadIdx.x) / SHARING_LANES;
    for (u32 vector = first; vector < preparing.padded; vector += step) {
        preparation.prepare(vector);
    }
}

// A warp finds the greatest `sure` of a stage. Vectors that match nothing have 0, and with far ones nothing is
// sure by their rows.
__device__ __forceinline__ void sure_of_stages(const Preparing &preparing) {
    const u32 stages = preparing.padded / preparing.stage_columns;
    const u32 step = gridDim.x * warps();
    for (u32 stage = blockIdx.x * warps() + warp_id(); stage < stages; stage += step) {
        float sure = 0;
        for (u32 column = lane_id(); column < preparing.stage_columns; column += WARP) {
            const VectorBounds bounds = preparing.bounds[stage * preparing.stage_columns + column];
            sure = bounds.reject == FAR_REJECT ? sure : max(sure, bounds.sure);
        }
        for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
            sure = max(sure, __shfl_xor_sync(ALL_LANES, sure, static_cast<int>(distance)));
        }
        if (lane_id() == 0) {
            preparing.stage_sure[stage] = sure;
        }
    }
}
