// What the host and the kernels of joins of vectors agree on. `vector/abi.rs` declares the
// same in Rust.
//
// Vectors of one launch have equally many dimensions d. A vector that is tested has 16 * `steps`
// halves (f16), where 16 * steps is the least multiple of 16 from d + 6 on: its numbers, zeros, and in
// the last six places what makes its products comparable with zero (vector_bounds.cuh). Eight halves
// are a chunk of 16 bytes; with chunk c of vector v (counted from the first of the array):
//
//     not blocked: (v / 8 * 2 * steps + c) * 128 + v % 8 * 16
//     blocked:     the last step lies behind all others, which lie in blocks of 4 steps; in a block of
//                  w chunks that begins with chunk b (the last but one may have fewer than 8):
//                  b * 16 * padded + (v / 8 * w + c - b) * 128 + v % 8 * 16
//
// so that a core matrix of the matrix instructions is 128 bytes in a row, and any octets of a block are
// one copy. As rows, vectors have another last step than as columns: `tails` holds it, in octets of two
// chunks. Arrays of halves begin at a multiple of 128 bytes.
#pragma once

#include "abi.cuh"
#include "tile_abi.cuh"

// Functions of two vectors, in the order of vector/metric.rs.
enum Metric : u32 { EUCLIDEAN = 0, INNER_PRODUCT = 1, COSINE = 2 };

// What is known of a prepared vector. A pair whose biased product, which the filter compares with
// zero, exceeds the sum of both `sure` matches.
struct VectorBounds {
    // Infinite where the vector matches nothing; minus infinity where only f64 decides.
    float reject;
    float sure;
};

// Vectors to be measured (vectors_measure), prepared (vectors_prepare) and summed up by stage
// (vectors_stages), in this order.
struct Preparing {
    // Row-major numbers of `count` vectors, float or, where `wide`, double.
    const void *values;
    // Bit v % 32 of word v / 32: whether vector v is one; the others match nothing, and their numbers
    // are not read. Null: all are.
    const u32 *present;
    // By dimension, what is subtracted from vectors of distances; null for none. Best a mean.
    const double *centre;
    // The greatest norm of the columns that are not far from most, as the bits of a double: raised by
    // vectors_measure, which finds a first value there (0), and read by vectors_prepare, of rows too;
    // cosines need none.
    u64 *greatest;
    // Vectors of greater norms are far from most.
    double limit;
    // 32 * steps bytes a vector, 32 bytes a vector (null unless they are rows), and 8.
    void *numbers;
    void *tails;
    VectorBounds *bounds;
    // By stage of columns: the greatest `sure` of vectors that match anything. Null for rows.
    float *stage_sure;
    // The least similar value that qualifies. Not NaN.
    double bound;
    // The error of a step of 16 products in the filter, relative to the sum of their magnitudes:
    // WGMMA_ROUNDING or MMA_ROUNDING.
    double rounding;
    u32 count;
    // Vectors to be written, a multiple of 8: those behind `count` match nothing.
    u32 padded;
    u32 dimensions;
    u32 steps;
    u32 blocked;
    u32 metric;
    u32 wide;
    u32 stage_columns;
    // Whether tame vectors match none that have positive NaN, or negative ones (vector/nan.rs).
    u32 nan_misses;
    u32 reserved;
};

constexpr u32 POSITIVE_MISSES = 1;
constexpr u32 NEGATIVE_MISSES = 2;

// For `vectors_plain` and the warpgroup kernels; for `vectors_mma`.
constexpr double WGMMA_ROUNDING = 6.5625 / (1 << 23);
constexpr double MMA_ROUNDING = 16.0 / (1 << 23);

// A question about a device: the greatest error of a step, over hard sums of up to `steps` steps, in the
// terms of Preparing::rounding. vectors_mma is exact where it is at most MMA_ROUNDING (vectors_probe, one
// block of one warp), the warpgroup kernels where it is at most WGMMA_ROUNDING (vectors_probe_warpgroup,
// one block of one warpgroup).
struct Probe {
    double *greatest;
    u32 steps;
    u32 reserved;
};

// Prepared vectors: addresses of vector number `first`, a multiple of OCTET (as columns, of
// stage_columns).
struct VectorSide {
    const void *values;
    const void *numbers;
    const void *tails;
    const VectorBounds *bounds;
    // The number of rows of each vector; null where every vector has one row.
    const u32 *row_counts;
    u32 first;
    // As prepared: for rows, strips are read to their ends; for columns, stages are.
    u32 padded;
    u32 wide;
    u32 reserved;
};

// Rows of one key, from `first` up to the next run's first, and the columns start .. end that they meet.
struct VectorRun {
    u32 first;
    u32 start;
    u32 end;
};

// Rows first_row .. first_row + strip_rows (first_row a multiple of OCTET), and stages of columns:
// stage s is columns s * stage_columns .. (s + 1) * stage_columns.
struct VectorUnit {
    u32 first_row;
    // Of stages that follow each other, or the place of the first in VectorWork::stages.
    u32 first_stage;
    // At most MAX_UNIT_COLUMNS columns.
    u32 stages;
};

// Boxes around the columns, where rows are columns, from their first on: of groups of 16, of blocks of 64,
// and of stages. Two that have a pair which matches are in reach: the sum, over the coordinates, of the squared gaps
// between them is at most `limit`.
struct VectorBoxes {
    // Of four neighbours, coordinates in chunks of four: by chunk, the lower ends of each, then the upper
    // ones. Of those that enclose nothing lower ends are infinite, and upper ones minus infinite.
    const void *groups;
    const void *blocks;
    const void *stages;
    // At most 4.
    u32 chunks;
    float limit;
};

constexpr u32 MAX_UNIT_COLUMNS = 1u << 15;

// A pair that the filter does not reject: the number of its unit, and
// sure << 31 | row within the strip << 16 | column within the unit. Or NO_UNIT: room that was not used.
struct VectorHit {
    u32 unit;
    u32 place;
};

constexpr u32 NO_UNIT = 0xffffffffu;

// What the kernels of one work have done. Zeros at first.
struct VectorTally {
    // Matches of two vectors: matches, cross. Of a vector with itself where rows are columns: its pair
    // is in `matches` too, `squares` and `rows` are as in Found.
    Found found;
    // Room for hits that was asked for, which may exceed what there is; pairs tested; pairs compared
    // in f64.
    u64 hits;
    u64 tests;
    u64 compared;
    // Pairs whose value is not a number: the host decides them.
    u64 undecided;
    u32 next;
    u32 redone;
};

// A work: the only argument of the kernels that filter and decide.
//
// Blocks fill the room for hits side by side: where the units under way have more than there is, all of
// them fail. So the host launches what is left with fewer blocks once no unit of a launch was done. A
// block alone makes progress, if room + 12 * chunk is at most 7/8 of the capacity.
struct VectorWork {
    VectorSide rows;
    VectorSide columns;
    // By stage from the columns' first on.
    const float *stage_sure;
    const VectorRun *runs;
    const VectorUnit *units;
    // The stages of units, one behind the other; null where those of a unit follow each other.
    const u32 *stages;
    VectorHit *hits;
    // By unit: written by the filter, 1 where its hits do not count.
    u32 *failed;
    // Units to be done again, with TOO_MANY where one alone has more than `room` hits.
    u32 *redo;
    // Pairs form: those found, room for as many as there are hits or, of dense units, pairs; with
    // overlap 1 where the value is not a number, so that the host decides. Count form: the latter alone,
    // `undecided_room` at most (the tally has the number of all).
    Match *matches;
    // By row from first_row on: how many matches it has. Null unless one match for each row will do.
    u32 *seen;
    VectorTally *tally;
    double bound;
    // Rows that count, and the name of row 0 in matches.
    u32 first_row;
    u32 end_row;
    u32 first_probe;
    u32 column_count;
    u32 run_count;
    u32 unit_count;
    u32 dimensions;
    u32 steps;
    u32 blocked;
    u32 metric;
    u32 strip_rows;
    u32 stage_columns;
    // Room for hits: in all, and of one unit. A warp takes room for `chunk` hits at once, or for as
    // many as it has.
    u32 capacity;
    u32 room;
    u32 chunk;
    u32 undecided_room;
    // Whether rows are columns of the same number, each meets itself and later ones, and columns are
    // the probe vectors of matches.
    u32 same;
    // Whether the filter counts pairs that are sure, instead of noting them: count form, one row a
    // vector, no `seen`.
    u32 counts_sure;
    // For kernels that need them.
    VectorBoxes boxes;

    // Stage `place` of a unit.
    __device__ __forceinline__ u32 stage_of(const VectorUnit &unit, u32 place) const {
        return stages ? __ldg(&stages[unit.first_stage + place]) : unit.first_stage + place;
    }

    // Column `place` of a unit.
    __device__ __forceinline__ u32 column_of(const VectorUnit &unit, u32 place) const {
        return stage_of(unit, place / stage_columns) * stage_columns + place % stage_columns;
    }

    __device__ __forceinline__ Match match_of(u32 row, u32 column, u32 overlap) const {
        return same ? Match{column, row, overlap} : Match{first_probe + row, column, overlap};
    }
};

static_assert(sizeof(VectorBounds) == 8 && sizeof(Preparing) == 128, "as in vector/abi.rs");
static_assert(sizeof(Probe) == 16, "as in vector/abi.rs");
static_assert(sizeof(VectorSide) == 56 && sizeof(VectorRun) == 12, "as in vector/abi.rs");
static_assert(sizeof(VectorHit) == 8, "as in vector/abi.rs");
static_assert(sizeof(VectorUnit) == 12, "as in offload/tiles/left.rs");
static_assert(sizeof(VectorTally) == 72 && sizeof(VectorWork) == 304, "as in vector/abi.rs");
