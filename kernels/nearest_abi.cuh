// Structures of the host and the kernels of nearest vectors. `vector/nearest/abi.rs` declares the
// same in Rust.
//
// Left vectors are rows, right vectors are columns. A vector has a position, at which its halves lie, and a
// number, by which its numbers as they were given lie. Halves lie as vector_abi.cuh says.
#pragma once

#include "vector_abi.cuh"

// The work and the findings of all kernels of a search. Zeros at first.
struct NearestTally {
    // The units of both passes; `hits` of the second is the room in the list that was asked for.
    VectorTally bests;
    VectorTally pairs;
    // The greatest r(x) and ‖x̂‖², as bits of floats.
    u32 most_off;
    u32 most_square;
    // Vectors whose products prove nothing.
    u32 unusual;
    // Rows that found fewer columns in the sample than they are to have neighbours.
    u32 unbounded;
    // Rows whose neighbours had no room.
    u32 unserved;
    // The greatest bits of a threshold, and of the complement of one.
    u32 lowest;
    u32 highest;
    u32 reserved;
    // Entries of buckets, pairs compared in f64, and neighbours.
    u64 kept;
    u64 compared;
    u64 found;
};

// Vectors to be prepared (nearest_prepare).
struct NearestPreparing {
    // Row-major numbers of `count` vectors, float or, where `wide`, double.
    const void *values;
    // By dimension, what is subtracted; null for cosines.
    const double *centre;
    // The greatest norm, as the bits of a double; null for cosines.
    const u64 *greatest;
    // By position, the vector there; null where each has the position of its number.
    const u32 *order;
    // 32 * steps bytes a vector; 32 more as a row (null for columns).
    void *numbers;
    void *tails;
    NearestTally *tally;
    u32 count;
    // Vectors to be written, a multiple of 8: those behind `count` match nothing.
    u32 padded;
    u32 dimensions;
    u32 steps;
    u32 blocked;
    u32 metric;
    u32 wide;
    u32 reserved;
};

// Order of vectors (nearest_shuffle): position p has vector first + p * stride % count. With a stride of their own it
// is one that no order of the input repeats.
struct NearestShuffle {
    u32 *order;
    u32 count;
    u32 stride;
    u32 first;
    u32 reserved;
};

// Sums of counts (nearest_sum): starts[i] and next[i] are the sum of those before i; starts, which may be null,
// has one more.
struct NearestSum {
    const u32 *counts;
    u32 *starts;
    u32 *next;
    u64 count;
};

constexpr u32 NEAREST_BINS = 1u << 16;

// A search: the argument of all other kernels.
struct NearestWork {
    // The tiles: units, sides, sizes. `capacity`, `chunk` and `tally` are those of the list.
    VectorWork tiles;
    // By row, the keys of `group_count` groups of columns: the best of group_stages stages, those of a lane.
    u32 *groups;
    // By position of a row: the least sum of products (the bias with it) of a pair that may be a neighbour.
    float *thresholds;
    // By position, the number of a vector; null where each has the position of its number.
    const u32 *row_order;
    const u32 *column_order;
    // Of rows that are columns: positions by rising threshold, with all other columns behind them, and what is needed
    // to find them. One bin more for rows without any pair.
    u32 *bins;
    u32 *bin_next;
    u32 *bin_lowest;
    u32 *sorted_order;
    float *sorted_thresholds;
    // Pairs that pass, and the keys of their sums.
    uint2 *list;
    u32 *list_keys;
    // By position of a row: the pairs of its bucket, and where these begin; then column and key of each.
    u32 *counts;
    u32 *starts;
    u32 *next;
    uint2 *buckets;
    // By number of a row: where its neighbours begin, and how many it has, or NOT_SERVED.
    u32 *found_starts;
    u32 *found_counts;
    // The neighbours: the number of the column and the value, `found_room` at most.
    u32 *found_columns;
    double *found_values;
    NearestTally *summary;
    // The error of all steps of products, relative to the sum of their magnitudes.
    double gamma;
    u64 bucket_room;
    u32 found_room;
    u32 row_count;
    // Rows whose thresholds are written, at least row_count.
    u32 row_padded;
    u32 neighbours;
    u32 group_count;
    u32 group_stages;
    // The stages of the sample.
    u32 sample_stages;
    // Whether columns in a tie with the last neighbour are given, too.
    u32 with_ties;
    // Whether vectors lie as integers of 8 bits.
    u32 integers;
    u32 reserved;
};

constexpr u32 NOT_SERVED = 0xffffffffu;
// Pairs of a row that f64 compares, at most.
constexpr u32 MOST_COMPARED = 256;

static_assert(sizeof(NearestTally) == 200, "as in vector/nearest/abi.rs");
static_assert(sizeof(NearestPreparing) == 88, "as in vector/nearest/abi.rs");
static_assert(sizeof(NearestShuffle) == 24 && sizeof(NearestSum) == 32, "as in vector/nearest/abi.rs");
static_assert(sizeof(NearestWork) == 520, "as in vector/nearest/abi.rs");
