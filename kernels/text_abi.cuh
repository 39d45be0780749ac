// What the host and the kernels of joins of texts agree on. `string/abi.rs` declares the same in
// Rust.
#pragma once

#include "abi.cuh"

// Texts. Codes are below NO_CODE and lie four to a word, the first in the lowest byte; a text begins with
// a word, and NO_CODE fills its last word up.
struct TextSide {
    const u32 *words;
    // By item: the word that it begins with, its length, and its page: codes tell the scalars of two texts of
    // one page, or of ANY_PAGE and another one, but for NO_PAGE.
    const u32 *starts;
    const u32 *lens;
    const unsigned char *pages;
    const u64 *signatures;
    // Count form: the number of rows of each item; null where every item has one row.
    const u32 *row_counts;
    // The number of the first item.
    u32 first;
    u32 reserved;
};

constexpr u32 NO_CODE = 0x40;
constexpr u32 NO_CODES = 0x40404040u;
constexpr u32 ANY_PAGE = 0;
constexpr u32 NO_PAGE = 0xff;

// Texts to be signed: bits[code * 16 + occurrence], four to a word, is the bit of an element, NO_BIT where
// it has none.
struct TextSigning {
    const u32 *words;
    const u32 *starts;
    const u32 *lens;
    const u32 *bits;
    u64 *signatures;
    // By stage: the elements that some of its texts have, and those that all have. Null for rows.
    u64 *boxes;
    u32 count;
    u32 reserved;
};

constexpr u32 OCCURRENCES = 16;
constexpr u32 NO_BIT = 64;

// Rows of one run from `first` up to the next run's first, the columns that they admit, and the classes
// of these: table[table + class] (wrapping) has the limits of a class.
struct TextRun {
    u32 first;
    u32 start;
    u32 end;
    u32 first_class;
    u32 end_class;
    u32 table;
};

// A strip of rows and the stages of columns that a warp tests it with.
struct TextUnit {
    u32 first_row;
    u32 first_stage;
    u32 stages;
};

constexpr u32 TEXT_STRIP = 32;
constexpr u32 TEXT_STAGE = 64;
constexpr u32 MAX_TEXT_STAGES = 128;

// The limits of a row and a column: the most edits, the most elements of the row that the column may lack
// and of the column that the row may lack, by 8 bits each. NO_EDITS: no number of edits bounds the
// function, or a greater one than the band is wide.
constexpr u32 NO_MATCH = 0xffffffffu;
constexpr u32 NO_EDITS = 0xff;

// What the kernels of one work have done.
struct TextTally {
    Found found;
    // Matches and undecided pairs given.
    u64 given;
    u64 tests;
    u64 compared;
    // The next unit that no warp has taken, and the number of those to be done again.
    u32 next;
    u32 redone;
};

// Overlap of a match that the host decides.
constexpr u32 TEXT_UNDECIDED = 0xffffffffu;
// Of a unit to be done again: alone it has more matches than there is room for.
constexpr u32 TEXT_TOO_MANY = 0x80000000u;

// A work: the only argument of the kernels that test and decide.
struct TextWork {
    TextSide rows;
    TextSide columns;
    // By column: its class. By stage: the least and the greatest class.
    const u32 *classes;
    const u32 *stage_classes;
    const u64 *boxes;
    const u32 *table;
    const TextRun *runs;
    const TextUnit *units;
    u32 *redo;
    Match *matches;
    // By row: how many matches it has. Null unless one match for each row will do.
    u32 *seen;
    TextTally *tally;
    // Rows that count, and the name of row 0 in matches.
    u32 first_row;
    u32 end_row;
    u32 first_probe;
    u32 column_count;
    u32 run_count;
    u32 unit_count;
    // Room for matches: in all, and of one unit. No unit is begun with more than `enough` of it taken.
    u32 capacity;
    u32 room;
    u32 enough;
    // Whether a row meets columns up to its own number alone.
    u32 unordered;
    // Whether the function is the number of edits. Otherwise the host decides each pair within it.
    u32 decides;
    u32 reserved;
};

static_assert(sizeof(TextSide) == 56 && sizeof(TextSigning) == 56, "as in string/abi.rs");
static_assert(sizeof(TextRun) == 24, "as in string/abi.rs");
static_assert(sizeof(TextUnit) == 12, "as in offload/tiles/left.rs");
static_assert(sizeof(TextTally) == 64 && sizeof(TextWork) == 240, "as in string/abi.rs");
