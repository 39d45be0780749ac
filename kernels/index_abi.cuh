// What the host and the kernels of filters by inverted index agree on. `set/bwjoin/abi.rs`
// declares the same in Rust.
#pragma once

#include "abi.cuh"

// Build sets of one key and size, from `first` up to the next run's first.
struct IndexRun {
    u32 first;
    // The first tokens of each set, which are indexed.
    u32 prefix;
    // The number of the size among all sizes, ascending.
    u32 size_class;
    u32 reserved;
    // The number of the first posting; those of the sets follow one another.
    u64 posting;
};

// Where a token stands in its set, and the class of the set.
struct PostingPlace {
    u32 at;
    u32 size_class;
};

// Postings, field by field. A signature has bit t % 32 for each token t behind the indexed one.
struct Postings {
    u32 *sets;
    PostingPlace *places;
    u32 *signatures;
};

// A part of the build sets to be indexed.
struct Indexing {
    Sets sets;
    const IndexRun *runs;
    // By set.
    u32 *classes;
    // In the order of sets, and in that of tokens and sets.
    Postings unsorted;
    Postings sorted;
    // The token of each posting, and its number among the unsorted ones: before and behind a pass of
    // the sort.
    u32 *tokens;
    u32 *numbers;
    u32 *next_tokens;
    u32 *next_numbers;
    // Of a pass: by digit, then tile, the postings of the digit; behind these the sums of the digits.
    u32 *counts;
    // By token, and one more: where its postings begin among the sorted ones.
    u32 *offsets;
    u64 first_posting;
    u32 posting_count;
    u32 run_count;
    u32 first_set;
    u32 end_set;
    u32 universe;
    // The lowest bit of the digit of a pass.
    u32 shift;
    u32 tiles;
    u32 reserved;
};

// Rows (probe sets) of one key and size, from `first` up to the next run's first: the columns (build
// sets) that key and size admit, and table[table + class] (wrapping) as the overlap that a column of
// a class requires.
struct ProbeRun {
    u32 first;
    u32 start;
    u32 end;
    u32 table;
    // The size, unknown tokens included, and as many of its first tokens as are looked up.
    u32 size;
    u32 prefix;
};

// A row, and how far it has come: the postings of tokens before `place` are done, and of the token
// at `place` those of sets before `from`. Where rows have cells, the columns before `from`.
struct RowState {
    u32 row;
    u32 place;
    u32 from;
};

// A pair that a filter lets pass, under the token at these places in both sets.
struct IndexCandidate {
    u32 row;
    u32 column;
    u32 row_at;
    u32 column_at;
};

// No pair matches.
constexpr u32 NO_OVERLAP = 0xffffffffu;

// What the kernels of one work have done.
struct IndexTally {
    Found found;
    // Postings read; room asked for, and what of the room stays empty once more was asked for than
    // there is; pairs whose tokens were compared.
    u64 postings;
    u64 hits;
    u64 gap;
    u64 compared;
    // The next row that no block has taken, and the number of rows that are left.
    u32 next;
    u32 redone;
};

// A work: the only argument of the kernels that filter and decide.
struct IndexWork {
    Sets rows;
    Sets columns;
    // By set, and by class.
    const u32 *classes;
    const u32 *sizes;
    // A part of the index.
    const u32 *offsets;
    Postings postings;
    const ProbeRun *runs;
    const u32 *table;
    // The rows; null where they are all those from `first_row` on.
    const RowState *states;
    IndexCandidate *candidates;
    RowState *redo;
    // By row of the work, then by column of the part: cells, 0 at first, where the lookup has some.
    u32 *cells;
    Match *matches;
    // By row of the plan: how many matches it has. Null unless one match for each row will do.
    u32 *seen;
    // Count form: the number of rows of each set; null where every set has one row.
    const u32 *probe_rows;
    const u32 *build_rows;
    IndexTally *tally;
    // Postings after which blocks take no further row, and after which a row is left.
    u64 budget;
    u64 row_budget;
    // The first row of the plan, the rows of the work, and the name of row 0 in matches.
    u32 first_row;
    u32 row_count;
    u32 first_probe;
    u32 run_count;
    // The columns of the part.
    u32 part_first;
    u32 part_end;
    u32 capacity;
    // Whether rows are columns of the same number, and each meets only those before it.
    u32 same;
    // Whether a match needs its exact overlap.
    u32 exact;
    u32 reserved;

    __device__ __forceinline__ Match match_of(u32 row, u32 column, u32 overlap) const {
        return Match{first_probe + row, column, overlap};
    }
};

static_assert(sizeof(IndexRun) == 24 && sizeof(PostingPlace) == 8, "as in set/bwjoin/abi.rs");
static_assert(sizeof(Indexing) == 168 && sizeof(ProbeRun) == 24, "as in set/bwjoin/abi.rs");
static_assert(sizeof(RowState) == 12 && sizeof(IndexCandidate) == 16, "as in set/bwjoin/abi.rs");
static_assert(sizeof(IndexTally) == 72 && sizeof(IndexWork) == 224, "as in set/bwjoin/abi.rs");
