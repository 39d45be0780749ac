// What the host and the published techniques for large sets agree on. `simjoin-published/src/intersection/abi.rs` declares
// the same in Rust.
#pragma once

#include "abi.cuh"

// Two runs of a collection: ascending different values.
struct RunPair {
    const void *a;
    const void *b;
    u64 a_count;
    u64 b_count;
    // The number of common values is added to it.
    u64 *common;
};

// Sets whose pairs are intersected, and what the techniques keep: the only argument of the published
// kernels.
struct PairsWork {
    Sets sets;
    // By pair: its overlap is added.
    u32 *overlaps;
    // Techniques with hash tables: by block, `room_words` words for the table and values left over.
    // Those with bitmaps: by set, or for one set, `word_count` words. sf-gSSJoin: the sets of all
    // postings.
    u32 *room;
    // sf-gSSJoin: by token the number of postings, in front of each token the number of postings and of
    // pairs of them, and the pieces of running sums.
    u32 *counts;
    u64 *offsets;
    u64 *works;
    u64 *sums;
    // Pairs first_pair .. end_pair, by number (pair_of).
    u64 first_pair;
    u64 end_pair;
    u64 room_words;
    u64 word_count;
    // Bitmaps: the values from `first_value` on, word_count * 32 of them.
    u64 first_value;
    u32 set_count;
    // Parts that each pair is cut into.
    u32 parts;
    // Hash tables: buckets, a power of two, and values of a bucket.
    u32 buckets;
    u32 capacity;
    // BI-dynamic: the set that has the bitmap.
    u32 current;
    u32 universe;
};

// The greatest number of buckets.
constexpr u32 MAX_BUCKETS = 4096;

static_assert(sizeof(RunPair) == 40 && sizeof(PairsWork) == 128, "as in simjoin-published/src/intersection/abi.rs");
