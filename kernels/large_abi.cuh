// What the host and the kernels of large sets agree on. `set/scancount/abi.rs` declares the same in
// Rust.
#pragma once

#include "abi.cuh"

// What the kernels of one work have found.
struct LargeTally {
    Found found;
    // The next job that no block has taken, of light and of heavy tokens.
    u32 next_light;
    u32 next_heavy;
    // One more than the first row, from 0 on, that is not decided for lack of room; 0: all are.
    u32 stopped;
    u32 reserved;
};

// Rows of one key and size, from `first` up to the next run's first, and the columns that they admit.
struct LargeRun {
    u32 first;
    u32 start;
    u32 end;
};

// Measures of pairs of sets (set/measure.rs).
enum LargeMeasure : u32 { JACCARD, DICE, COSINE_OF_SETS, OVERLAP, OVERLAP_COEFFICIENT, CONTAINMENT };

// Rows and columns of which all overlaps are counted, then compared with what matches require: the only
// argument of the kernels of collections.
//
// Tokens ascend by frequency. Those below `heavy` are light: they are dealt to ranges, each from a cut
// up to the next one. The others own bits, a slice of them at a time.
struct LargeWork {
    // The first of them is row `first_row`, or column `first_column`.
    Sets rows;
    Sets columns;
    // The overlap of row r and column c, from 0 on, is overlaps[r * column_count + c].
    u32 *overlaps;
    // range_count + 1 tokens, ascending.
    const u32 *cuts;
    // By set, range_count + 1 places: of the first token from a cut on, among the tokens of the set.
    u32 *row_starts;
    u32 *column_starts;
    // The bits of a slice: chunks of CHUNK_BITS bits of all sets, padded to LARGE_TILE, octets of sets
    // after each other (tile_abi.cuh).
    u32 *row_bits;
    u32 *column_bits;
    // What decides pairs: sizes by row and by column, from 0 on, with tokens that are not among the sets'
    // own.
    const LargeRun *runs;
    const u32 *row_sizes;
    const u32 *column_sizes;
    Match *matches;
    // By row, from 0 on: whether it has a match. Null unless one match for each row will do.
    u32 *seen;
    // Count form: the number of rows of each set, by row and column; null where every set has one row.
    const u32 *probe_rows;
    const u32 *build_rows;
    LargeTally *tally;
    // The least value of the measure with which a pair matches.
    double threshold;
    u32 row_count;
    u32 column_count;
    u32 first_row;
    u32 first_column;
    // Whether rows are columns of the same number: each meets those before it.
    u32 same;
    u32 run_count;
    u32 range_count;
    // Ranges of a job.
    u32 job_ranges;
    // The slice: its first token, the number behind its last one, and its chunks.
    u32 slice_first;
    u32 slice_end;
    u32 chunk_count;
    // Chunks of a job.
    u32 job_chunks;
    // Room of a block that counts light tokens: for tokens of rows, and the lists that they are put in,
    // a power of two.
    u32 postings;
    u32 lists;
    LargeMeasure measure;
    // Whether rows are the measure's second argument.
    u32 second;
    // Rows to be decided, from 0 on, and the matches that there is room for.
    u32 decided_first;
    u32 decided_count;
    u32 capacity;
    u32 reserved;

    __device__ __forceinline__ Match match_of(u32 row, u32 column, u32 overlap) const {
        return Match{row, column, overlap};
    }

    // Whether a row and a column of these numbers, from 0 on, are a pair.
    __device__ __forceinline__ bool meets(u32 row, u32 column) const {
        return !same || u64{first_column} + column < u64{first_row} + row;
    }
};

// Rows and columns of a tile of bits, and the bits of a chunk.
constexpr u32 LARGE_TILE = 128;
constexpr u32 CHUNK_BITS = 1024;
constexpr u32 CHUNK_WORDS = CHUNK_BITS / 32;

static_assert(sizeof(LargeRun) == 12 && sizeof(LargeTally) == 48 && sizeof(LargeWork) == 232, "as in set/scancount/abi.rs");
