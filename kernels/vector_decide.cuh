// Decides pairs of vectors in f64: the functions of vector/metric.rs, bit for bit, over the numbers
// as they were given, from left to right and without fused operations. Pairs that wait for that gather
// in shared memory, until there is one for every lane of the warp.
#pragma once

#include "answers.cuh"
#include "runs.cuh"
#include "vector_halves.cuh"
#include "warp.cuh"

constexpr u32 VECTOR_DECIDING_WARPS = 4;
// Pairs of a warp that wait: what is left of a warp's, and another warp's.
constexpr u32 WAITING_PAIRS = 2 * WARP;
// Overlap of a match whose value is not a number: the host decides it.
constexpr u32 UNDECIDED = 1;

// The sums behind the functions.
template <u32 METRIC>
struct Accumulation {
    // The sum of squares begins at -0.0, as DataFusion's.
    double sum = METRIC == EUCLIDEAN ? -0.0 : 0.0;
    double xx = 0;
    double yy = 0;

    __device__ __forceinline__ void add(double x, double y) {
        if (METRIC == EUCLIDEAN) {
            const double off = __dsub_rn(x, y);
            sum = __dadd_rn(sum, __dmul_rn(off, off));
        } else {
            sum = __dadd_rn(sum, __dmul_rn(x, y));
        }
        if (METRIC == COSINE) {
            xx = __dadd_rn(xx, __dmul_rn(x, x));
            yy = __dadd_rn(yy, __dmul_rn(y, y));
        }
    }

    // NULL where it is none.
    __device__ __forceinline__ double value(bool &is_null) const {
        is_null = METRIC == COSINE && (xx == 0 || yy == 0);
        if (METRIC == EUCLIDEAN) {
            return __dsqrt_rn(sum);
        }
        if (METRIC == COSINE && !is_null) {
            return __dsub_rn(1.0, __ddiv_rn(sum, __dmul_rn(__dsqrt_rn(xx), __dsqrt_rn(yy))));
        }
        return sum;
    }
};

// The value of a function; `is_null` where it is NULL.
struct Value {
    double value;
    bool is_null;
};

// Four numbers from a place that is aligned for floats.
struct Four {
    double numbers[4];

    __device__ __forceinline__ explicit Four(const float *from) {
        const uint4 bits = __ldg(reinterpret_cast<const uint4 *>(from));
        const u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
        for (u32 i = 0; i < 4; ++i) {
            numbers[i] = __uint_as_float(words[i]);
        }
    }

    __device__ __forceinline__ explicit Four(const double *from) {
        for (u32 i = 0; i < 4; ++i) {
            numbers[i] = __ldg(&from[i]);
        }
    }
};

template <u32 METRIC, class X, class Y>
__device__ __forceinline__ Value value_of(const X *x, const Y *y, u32 dimensions) {
    Accumulation<METRIC> sums;
    u32 i = 0;
    // Rows of a multiple of 16 bytes are aligned.
    if (dimensions % 4 == 0) {
#pragma unroll 1
        for (; i < dimensions; i += 4) {
            const Four a(x + i);
            const Four b(y + i);
            for (u32 k = 0; k < 4; ++k) {
                sums.add(a.numbers[k], b.numbers[k]);
            }
        }
    }
    for (; i < dimensions; ++i) {
        sums.add(__ldg(&x[i]), __ldg(&y[i]));
    }
    Value value{0, false};
    value.value = sums.value(value.is_null);
    return value;
}

template <class X, class Y>
__device__ __forceinline__ Value value_of(u32 metric, const X *x, const Y *y, u32 dimensions) {
    switch (metric) {
        case EUCLIDEAN:
            return value_of<EUCLIDEAN>(x, y, dimensions);
        case INNER_PRODUCT:
            return value_of<INNER_PRODUCT>(x, y, dimensions);
        default:
            return value_of<COSINE>(x, y, dimensions);
    }
}

// Of vector x of `of_x` and y of `of_y`. Not inlined: it has a form for each function and type.
__device__ __noinline__ Value value_of(u32 metric, const void *of_x, const void *of_y, u64 x, u64 y, u32 wide,
                                       u32 dimensions) {
    const auto *x32 = static_cast<const float *>(of_x) + x * dimensions;
    const auto *x64 = static_cast<const double *>(of_x) + x * dimensions;
    const auto *y32 = static_cast<const float *>(of_y) + y * dimensions;
    const auto *y64 = static_cast<const double *>(of_y) + y * dimensions;
    switch (wide) {
        case 0:
            return value_of(metric, x32, y32, dimensions);
        case 1:
            return value_of(metric, x64, y32, dimensions);
        case 2:
            return value_of(metric, x32, y64, dimensions);
        default:
            return value_of(metric, x64, y64, dimensions);
    }
}

// The place of a number in DataFusion's order: -0.0 lies below 0.0.
__device__ __forceinline__ long long order_of(double number) {
    const long long bits = __double_as_longlong(number);
    return bits ^ static_cast<long long>(static_cast<u64>(bits >> 63) >> 1);
}

// What is found of a pair.
enum class Outcome : u32 { NO_MATCH, MATCH, UNKNOWN };

__device__ __forceinline__ Outcome outcome_of(const VectorWork &work, u32 row, u32 column) {
    const u32 wide = (work.rows.wide ? 1u : 0u) | (work.columns.wide ? 2u : 0u);
    const Value value = value_of(work.metric, work.rows.values, work.columns.values, row - work.rows.first,
                                 column - work.columns.first, wide, work.dimensions);
    if (value.is_null) {
        return Outcome::NO_MATCH;
    }
    if (value.value != value.value) {
        return Outcome::UNKNOWN;
    }
    const long long place = order_of(value.value);
    const long long bound = order_of(work.bound);
    const bool admits = work.metric == INNER_PRODUCT ? place >= bound : place <= bound;
    return admits ? Outcome::MATCH : Outcome::NO_MATCH;
}

// Matches given as pairs, those that are undecided among them.
struct VectorPairs {
    const VectorWork &work;

    __device__ __forceinline__ explicit VectorPairs(const VectorWork &work) : work(work) {}

    // By all lanes of a warp, with a pair each.
    __device__ __forceinline__ void push(Outcome outcome, u32 row, u32 column) {
        const bool is_unknown = outcome == Outcome::UNKNOWN;
        append(work.tally->found, work.matches, outcome != Outcome::NO_MATCH,
               work.match_of(row, column, is_unknown ? UNDECIDED : 0));
        if (is_unknown) {
            atomicAdd(&work.tally->undecided, u64{1});
        }
    }

    __device__ __forceinline__ void finish() {}
};

// The same counted, in pairs of rows of the join; those that are undecided are given.
struct VectorCount {
    const VectorWork &work;
    Counters counters;

    __device__ __forceinline__ explicit VectorCount(const VectorWork &work) : work(work) {}

    __device__ __forceinline__ void push(Outcome outcome, u32 row, u32 column) {
        if (outcome == Outcome::MATCH) {
            const u64 of_row = work.rows.row_counts ? __ldg(&work.rows.row_counts[row - work.rows.first]) : 1;
            counters.matches += 1;
            if (work.same && row == column) {
                counters.squares += of_row * of_row;
                counters.rows += of_row;
            } else {
                const u32 *counts = work.columns.row_counts;
                counters.cross += of_row * (counts ? __ldg(&counts[column - work.columns.first]) : 1);
            }
        } else if (outcome == Outcome::UNKNOWN) {
            const u64 place = atomicAdd(&work.tally->undecided, u64{1});
            if (place < work.undecided_room) {
                work.matches[place] = work.match_of(row, column, UNDECIDED);
            }
        }
    }

    // By all threads of a block, once.
    __device__ __forceinline__ void finish() { counters.add_to(work.tally->found); }
};

struct WaitingPair {
    u32 row;
    u32 column;
};

template <class Answer>
struct VectorDecider {
    const VectorWork &work;
    Answer answer;
    WaitingPair *pairs;
    // Alike in all lanes.
    u32 waiting = 0;
    u64 compared = 0;

    // `pairs`: WAITING_PAIRS for each warp.
    __device__ __forceinline__ VectorDecider(const VectorWork &work, WaitingPair *pairs)
        : work(work), answer(work), pairs(pairs + warp_id() * WAITING_PAIRS) {}

    // Takes a pair a lane, where there is one, which may be known to match. By all lanes of a warp.
    __device__ __forceinline__ void take(bool present, bool sure, u32 row, u32 column) {
        present = present && !is_settled(row);
        const u32 open = __ballot_sync(ALL_LANES, present && !sure);
        if (__any_sync(ALL_LANES, present && sure)) {
            settle(present && sure ? Outcome::MATCH : Outcome::NO_MATCH, row, column);
        }
        if (open == 0) {
            return;
        }
        if (open >> lane_id() & 1) {
            pairs[waiting + static_cast<u32>(__popc(open & lanes_below()))] = WaitingPair{row, column};
        }
        waiting += static_cast<u32>(__popc(open));
        __syncwarp();
        if (waiting >= WARP) {
            waiting -= WARP;
            compare(waiting, WARP);
        }
    }

    // Decides what is left. By all threads of a block.
    __device__ __forceinline__ void finish() {
        compare(0, waiting);
        const u64 sum = sum_of_lanes<WARP>(compared);
        if (lane_id() == 0 && sum > 0) {
            atomicAdd(&work.tally->compared, sum);
        }
        answer.finish();
    }

private:
    // Compares `count` pairs, a lane each, from place `first` on.
    __device__ __forceinline__ void compare(u32 first, u32 count) {
        WaitingPair pair{0, 0};
        if (lane_id() < count) {
            pair = pairs[first + lane_id()];
        }
        // The places may be taken again.
        __syncwarp();
        Outcome outcome = Outcome::NO_MATCH;
        if (lane_id() < count && !is_settled(pair.row)) {
            outcome = outcome_of(work, pair.row, pair.column);
            ++compared;
        }
        settle(outcome, pair.row, pair.column);
    }

    // Whether the row needs no further match.
    __device__ __forceinline__ bool is_settled(u32 row) const {
        return work.seen && atomicAdd(&work.seen[row - work.first_row], 0u) > 0;
    }

    // By all lanes of a warp.
    __device__ __forceinline__ void settle(Outcome outcome, u32 row, u32 column) {
        if (outcome == Outcome::MATCH && work.seen && atomicAdd(&work.seen[row - work.first_row], 1u) > 0) {
            outcome = Outcome::NO_MATCH;
        }
        answer.push(outcome, row, column);
    }
};

// Decides the pairs behind hits.
template <class Answer>
__device__ __forceinline__ void decide_vector_hits(const VectorWork &work) {
    __shared__ WaitingPair pairs[VECTOR_DECIDING_WARPS * WAITING_PAIRS];
    VectorDecider<Answer> decider(work, pairs);
    const u64 hits = work.tally->hits;
    const u64 total = hits < work.capacity ? hits : work.capacity;
    const u64 step = u64{gridDim.x} * blockDim.x;
    for (u64 base = u64{blockIdx.x} * blockDim.x + warp_id() * WARP; base < total; base += step) {
        const u64 at = base + lane_id();
        VectorHit hit{NO_UNIT, 0};
        if (at < total) {
            hit = work.hits[at];
        }
        const bool counts = hit.unit != NO_UNIT && work.failed[hit.unit] == 0;
        u32 row = 0;
        u32 column = 0;
        if (counts) {
            const VectorUnit unit = work.units[hit.unit];
            row = unit.first_row + (hit.place >> 16 & 0x7fff);
            column = work.column_of(unit, hit.place & 0xffff);
        }
        decider.take(counts, hit.place >> 31 != 0, row, column);
    }
    decider.finish();
}

// Decides all pairs of units.
template <class Answer>
__device__ __forceinline__ void decide_vector_units(const VectorWork &work) {
    __shared__ WaitingPair pairs[VECTOR_DECIDING_WARPS * WAITING_PAIRS];
    VectorDecider<Answer> decider(work, pairs);
    const u64 step = u64{gridDim.x} * blockDim.x;
    for (u32 number = 0; number < work.unit_count; ++number) {
        const VectorUnit unit = work.units[number];
        // A multiple of a warp: its lanes share a row.
        const u32 width = unit.stages * work.stage_columns;
        const u64 total = u64{work.strip_rows} * width;
        for (u64 base = u64{blockIdx.x} * blockDim.x + warp_id() * WARP; base < total; base += step) {
            const u64 at = base + lane_id();
            const u32 row = unit.first_row + static_cast<u32>(at / width);
            const u32 column = work.column_of(unit, static_cast<u32>(at % width));
            bool counts = row >= work.first_row && row < work.end_row && column < work.column_count &&
                          !(work.same && column < row);
            if (counts) {
                const VectorRun run = run_before(work.runs, work.run_count, row);
                counts = column >= run.start && column < run.end &&
                         work.rows.bounds[row - work.rows.first].reject < infinity<float>() &&
                         work.columns.bounds[column - work.columns.first].reject < infinity<float>();
            }
            decider.take(counts, false, row, column);
        }
    }
    decider.finish();
}
