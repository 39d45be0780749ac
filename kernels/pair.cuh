// The candidates of a chunk as pairs of token runs.
#pragma once

#include "abi.cuh"
#include "warp.cuh"

// A probe set with its candidates, those numbered start .. end.
struct ProbeGroup {
    u32 set;
    u32 name;
    u32 table;
    u32 start;
    u32 end;
    const u32 *tokens;
    u32 size;

    __device__ __forceinline__ ProbeGroup(const Chunk &chunk, u64 number) {
        const u32 *fields = &chunk.groups[number].set;
        set = __ldg(fields);
        name = __ldg(fields + 1);
        start = __ldg(fields + 2);
        table = __ldg(fields + 3);
        end = __ldg(&chunk.groups[number + 1].start);
        const u64 first = __ldg(&chunk.probe.offsets[set]);
        tokens = chunk.probe.tokens + first;
        size = static_cast<u32>(__ldg(&chunk.probe.offsets[set + u64{1}]) - first);
    }
};

// A candidate. It matches if and only if `overlap` is at least `required` once the tokens left have
// been intersected.
struct Pair {
    u32 build;
    u32 overlap;
    u32 required;
    // Tokens left to compare: the last ones of the probe set, and those at `tokens`.
    u32 probe_left;
    u32 left;
    const u32 *tokens;

    __device__ __forceinline__ Pair() : build(0), overlap(0), required(1), probe_left(0), left(0), tokens(nullptr) {}

    __device__ __forceinline__ Pair(const Chunk &chunk, const ProbeGroup &group, u32 number) {
        // The fields are loaded one by one: candidates need no more than the alignment of a word.
        const u32 *words = static_cast<const u32 *>(chunk.candidates);
        u32 probe_at, build_at;
        if (chunk.wide) {
            words += u64{number} * (sizeof(WideCandidate) / sizeof(u32));
            build = __ldg(words);
            overlap = __ldg(words + 1);
            required = __ldg(words + 2);
            probe_at = __ldg(words + 3);
            build_at = __ldg(words + 4);
        } else {
            words += u64{number} * (sizeof(NarrowCandidate) / sizeof(u32));
            build = __ldg(words);
            const u32 packed = __ldg(words + 1);
            overlap = packed & 0x3ff;
            probe_at = packed >> 10 & 0x7ff;
            build_at = packed >> 21;
        }
        const u64 first = __ldg(&chunk.build.offsets[build]);
        const u32 size = static_cast<u32>(__ldg(&chunk.build.offsets[build + u64{1}]) - first);
        if (!chunk.wide) {
            // The sum wraps on purpose: the table of a group starts at its least partner's size.
            required = __ldg(&chunk.required[group.table + size]);
        }
        probe_left = group.size - min(probe_at, group.size);
        left = size - min(build_at, size);
        tokens = chunk.build.tokens + first + build_at;
    }

    // Leaves the next `count` tokens of the build set behind, of which `common` are the probe's.
    __device__ __forceinline__ void advance(u32 count, u32 common) {
        tokens += count;
        left -= min(left, count);
        probe_left -= common;
        overlap += common;
    }

    __device__ __forceinline__ bool matches() const { return overlap >= required; }

    // Whether tokens have to be compared to tell whether the pair matches, or with what overlap.
    __device__ __forceinline__ bool is_open(u32 exact) const {
        const u32 most = min(probe_left, left);
        return most > 0 && overlap + most >= required && (exact || overlap < required);
    }
};
