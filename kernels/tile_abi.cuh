// What the host and the kernels of signature tiles agree on. `set/bitmap/abi.rs` declares the
// same in Rust.
#pragma once

#include "abi.cuh"

// Signatures lie in octets: the words of eight sets, four words of each set after the other. Word w
// of set s is words[s / 8 * 8 * width + w / 4 * 32 + s % 8 * 4 + w % 4], so that 128 bits of eight
// sets, a core matrix of the matrix instructions, are 128 bytes in a row.
constexpr u32 OCTET = 8;

// Sets to be signed. Token t is number f = universe - 1 - t by falling frequency: the first `owned`
// of these numbers own a bit each, the others are dealt to 2^hashed_log further bits, forth and back.
struct Signing {
    Sets sets;
    u32 *words;
    // By set: tokens less bits.
    u32 *hidden;
    // By set: the place of its size among `sizes`. Null where nothing asks for it.
    u32 *classes;
    const u32 *sizes;
    u32 size_count;
    u32 count;
    // Sets to be written: those behind `count` are empty.
    u32 padded;
    // Words of a signature.
    u32 width;
    u32 universe;
    u32 owned;
    u32 hashed_log;
    u32 reserved;
};

// Signed sets to be made columns: the unions of `members` neighbours, and by stage of `stage_sets`
// sets the least and the greatest class.
struct Uniting {
    const u32 *words;
    u32 *unions;
    const u32 *classes;
    u32 *stage_classes;
    u32 count;
    u32 padded;
    u32 width;
    u32 members;
    u32 stages;
    u32 stage_sets;
};

// Signed sets.
struct Signed {
    Sets sets;
    const u32 *words;
    const u32 *hidden;
};

// Rows of one key and size, from `first` up to the next run's first: the columns that key and size
// admit, and table[table + class] as the overlap that a column of a class requires.
struct RowRun {
    u32 first;
    u32 start;
    u32 end;
    u32 table;
};

// Rows that a block tests together, from a multiple of OCTET on; the table holds the least overlap
// that any of them requires.
struct Strip {
    u32 first;
    u32 table;
};

// The stages that a block tests a strip with.
struct Unit {
    u32 strip;
    u32 first_stage;
    u32 stages;
};

// The most stages of a unit.
constexpr u32 MAX_STAGES = 128;
// No pair matches.
constexpr u32 NEVER = 0xffffffffu;
// Overlaps that columns require are below this.
constexpr u32 MOST_OVERLAP = 1u << 30;
// Of a unit to be done again: alone it has more hits than a block has room for.
constexpr u32 TOO_MANY = 0x80000000u;

// A row and a column that pass the test of a tile.
struct Hit {
    u32 row;
    u32 column;
};

// What the kernels of one work have done.
struct Tally {
    Found found;
    // Hits written, pairs tested, and pairs whose tokens were compared.
    u64 hits;
    u64 tests;
    u64 compared;
    // The next unit that no block has taken, and the number of those to be done again.
    u32 next;
    u32 redone;
};

// A work: the only argument of the kernels that test and decide.
struct TileWork {
    Signed rows;
    Signed columns;
    // By set: its class. By stage: the least and the greatest class.
    const u32 *classes;
    const u32 *stage_classes;
    // What rows are tested with: the words of columns, or of unions of `members` neighbours.
    const u32 *unions;
    const u32 *table;
    const RowRun *runs;
    const Strip *strips;
    const Unit *units;
    Hit *hits;
    u32 *redo;
    Match *matches;
    // By row: how many matches it has. Null unless one match for each row will do.
    u32 *seen;
    // Count form: the number of rows of each set; null where every set has one row.
    const u32 *probe_rows;
    const u32 *build_rows;
    Tally *tally;
    // Rows that count, and the name of row 0 in matches.
    u32 first_row;
    u32 end_row;
    u32 first_probe;
    u32 column_count;
    u32 run_count;
    u32 unit_count;
    // Words of a signature; sets of a union.
    u32 width;
    u32 members;
    // Rows of a strip; columns of a stage.
    u32 strip_rows;
    u32 stage_columns;
    // Room for hits: in all, and of one unit.
    u32 capacity;
    u32 room;
    // Whether rows are columns of the same number, each meets only later ones, and columns are the
    // probe sets of matches.
    u32 same;
    // Whether a match needs its exact overlap.
    u32 exact;
    // Whether every token owns a bit.
    u32 decides;
    u32 reserved;

    __device__ __forceinline__ Match match_of(u32 row, u32 column, u32 overlap) const {
        return same ? Match{column, row, overlap} : Match{first_probe + row, column, overlap};
    }
};

static_assert(sizeof(Signing) == 80 && sizeof(Uniting) == 56, "as in set/bitmap/abi.rs");
static_assert(sizeof(RowRun) == 16 && sizeof(Strip) == 8, "as in set/bitmap/abi.rs");
static_assert(sizeof(Unit) == 12, "as in offload/tiles/left.rs");
static_assert(sizeof(Hit) == 8 && sizeof(Tally) == 64 && sizeof(TileWork) == 240, "as in set/bitmap/abi.rs");
