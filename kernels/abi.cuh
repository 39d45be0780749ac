// Structures of the host and the kernels. `set/device/abi.rs` declares the same in Rust, those of candidates
// `simjoin-published/src/verified/abi.rs`; files of Rust are named here as they lie in crates/simjoin-gpu/src.
#pragma once

#include "types.cuh"

// Sets in CSR form: the tokens of set s are tokens[offsets[s] .. offsets[s + 1]], ascending.
struct Sets {
    const u32 *tokens;
    const u64 *offsets;
};

// Candidates of one probe set within a chunk: those from `start` up to the next group's start. A
// probe set with many of them has several groups.
struct Group {
    // The probe set among the probe sets of the chunk, and its name in matches.
    u32 set;
    u32 probe;
    u32 start;
    // Narrow candidates: required[table + n] (wrapping) is the least overlap with a build set of n
    // tokens with which the pair matches.
    u32 table;
};

// A candidate with everything in it.
struct WideCandidate {
    u32 build;
    // Common tokens found so far. Those left to find lie behind both positions; a token that is
    // counted already may lie behind one of them, but not behind both.
    u32 overlap;
    // The least overlap with which the pair matches.
    u32 required;
    // Where the merge resumes.
    u32 probe_at;
    u32 build_at;
};

// A candidate of sets of at most NARROW_SIZE tokens: the required overlap is in the group's table.
struct NarrowCandidate {
    u32 build;
    // overlap | probe_at << 10 | build_at << 21
    u32 packed;
};

constexpr u32 NARROW_SIZE = 1023;

struct Match {
    u32 probe;
    u32 build;
    u32 overlap;
};

// What a kernel has found.
struct Found {
    // Matches in all. In the pairs form the place of the next one in `matches`.
    u64 matches;
    // Count form, in pairs of rows. Of matches of two sets: the sum of the products of their row
    // counts. Of matches of a set with itself (self-joins only): the sums of the squares of its row
    // count, and of the row count.
    u64 cross;
    u64 squares;
    u64 rows;
};

// A chunk of candidates and where its matches go: the only argument of every verification kernel.
struct Chunk {
    Sets probe;
    Sets build;
    // group_count + 1 groups; the last one only ends the candidates of the one before.
    const Group *groups;
    // NarrowCandidate or WideCandidate.
    const void *candidates;
    const u32 *required;
    // Count form: the number of rows of each probe set (by Group::set) and build set; null where every
    // set has one row.
    const u32 *probe_rows;
    const u32 *build_rows;
    // Pairs form: room for as many matches as there are candidates.
    Match *matches;
    Found *found;
    u32 group_count;
    // Whether candidates are wide.
    u32 wide;
    // Whether a match needs its exact overlap; otherwise any lower bound that qualifies will do.
    u32 exact;
    // Whether one match for each probe set will do.
    u32 first_only;
    // Whether a probe set equals the build set of the same number (a self-join).
    u32 same;
    // Words of 4 bytes of dynamic shared memory.
    u32 shared_words;
};

static_assert(sizeof(WideCandidate) == 20 && sizeof(Match) == 12, "as in set/candidates.rs, engine/cursor.rs of the core");
static_assert(sizeof(NarrowCandidate) == 8 && sizeof(Group) == 16, "as in simjoin-published/src/verified/abi.rs");
static_assert(sizeof(Chunk) == 112, "as in simjoin-published/src/verified/abi.rs");
static_assert(sizeof(Found) == 32, "as in set/device/abi.rs");
