// A block owns a probe set, held in shared memory in a form that answers membership. A
// warp takes 32 candidates at a time. First each lane peeks at a few tokens of its own one, which
// is the end of most: filters leave pairs that only just have the tokens they need. Then runs of
// LANES lanes each read the tokens left of one open candidate, coalesced. Tokens are looked up
// rather than merged, so that no load waits for a comparison.
#pragma once

#include "members.cuh"
#include "sink.cuh"
#include "warp_batch.cuh"

// Lanes that verify a candidate together. Of 4, 8, 16 and 32, four were the fastest on an H200, or
// within a tenth, from three tokens a set to hundreds.
constexpr u32 LANES = 4;
// Tokens of its own candidate that a lane peeks at: half a sector.
constexpr u32 PEEK = 4;
// Tokens of a shared candidate that a lane has under way at once.
constexpr u32 LOADS = 4;
// A bitmap is preferred to a hash table up to this many words of it ...
constexpr u32 BITMAP_WORDS = 256;
// ... and for each candidate that will be looked up: clearing must repay.
constexpr u32 BITMAP_WORDS_PER_CANDIDATE = 8;

// How many of COUNT tokens, STRIDE apart from `first` on, `members` holds and are no less than
// `least`; those numbered `left` and up are not there.
template <u32 COUNT, u32 STRIDE, class Members>
__device__ __forceinline__ u32 count_members(const Members &members, const u32 *tokens, u32 first, u32 left,
                                             u32 least) {
    // All loads come before the first look-up.
    u32 token[COUNT];
#pragma unroll
    for (u32 k = 0; k < COUNT; ++k) {
        const u32 i = first + k * STRIDE;
        token[k] = i < left ? __ldg(&tokens[i]) : NO_TOKEN;
    }
    u32 count = 0;
#pragma unroll
    for (u32 k = 0; k < COUNT; ++k) {
        count += members.contain(token[k]) & (token[k] >= least);
    }
    return count;
}

// Counts the tokens left of the batch's open candidates that `members` holds. Stops when the
// required overlap is out of reach or, unless exact, reached.
template <class Members>
__device__ __forceinline__ void look_up(const Chunk &chunk, const ProbeGroup &group, const Members &members,
                                        WarpBatch &batch) {
    constexpr u32 AT_ONCE = WARP / LANES;
    const u32 place = lane_id() % LANES;
    const u32 run = lane_id() / LANES;
    u32 least = 0;
    bool is_open = batch.open >> lane_id() & 1;
    if (is_open) {
        Pair &pair = batch.pair;
        // Common tokens in front of the probe's resume position are counted already, and may lie
        // behind that of the build set.
        least = __ldg(&group.tokens[group.size - pair.probe_left]);
        const u32 common = count_members<PEEK, 1>(members, pair.tokens, 0, pair.left, least);
        pair.advance(PEEK, common);
        is_open = pair.is_open(chunk.exact);
    }
    batch.open = __ballot_sync(ALL_LANES, is_open);
    // The lane of the n-th open candidate, in lane n; and the lane's own n.
    const u32 lanes = nth_bit(batch.open, lane_id());
    const u32 own = static_cast<u32>(__popc(batch.open & lanes_below()));
    const u32 count = static_cast<u32>(__popc(batch.open));
    for (u32 base = 0; base < count; base += AT_ONCE) {
        const u32 owner = __shfl_sync(ALL_LANES, lanes, static_cast<int>(base + run));
        const u64 address = reinterpret_cast<u64>(batch.pair.tokens);
        const u32 *tokens = reinterpret_cast<const u32 *>(__shfl_sync(ALL_LANES, address, static_cast<int>(owner)));
        const u32 floor = __shfl_sync(ALL_LANES, least, static_cast<int>(owner));
        const u32 required = __shfl_sync(ALL_LANES, batch.pair.required, static_cast<int>(owner));
        u32 overlap = __shfl_sync(ALL_LANES, batch.pair.overlap, static_cast<int>(owner));
        u32 left = __shfl_sync(ALL_LANES, batch.pair.left, static_cast<int>(owner));
        left = base + run < count ? left : 0;
        // The runs go in step: diverged, they would wait for each other all the same.
        while (__any_sync(ALL_LANES, left > 0)) {
            overlap += sum_of_lanes<LANES>(count_members<LOADS, LANES>(members, tokens, place, left, floor));
            tokens += LANES * LOADS;
            left -= min(left, LANES * LOADS);
            if (overlap + left < required || (!chunk.exact && overlap >= required)) {
                left = 0;
            }
        }
        // Back to the lane that pushes it.
        overlap = __shfl_sync(ALL_LANES, overlap, static_cast<int>((own - base) % AT_ONCE * LANES));
        if (is_open && own - base < AT_ONCE) {
            batch.pair.overlap = overlap;
        }
    }
}

template <class Members, class Sink>
__device__ __forceinline__ void look_up_candidates(const Chunk &chunk, const ProbeGroup &group,
                                                   const Members &members, const Settled &settled, Sink &sink) {
    for (u64 base = u64{group.start} + warp_id() * WARP; base < group.end; base += blockDim.x) {
        if (settled.get()) {
            return;
        }
        WarpBatch batch(chunk, group, base);
        look_up(chunk, group, members, batch);
        const bool matched = batch.matches();
        sink.push(matched, group, batch.pair);
        settled.add(matched);
    }
}

template <class Sink>
__device__ __forceinline__ void lanes_per_pair(const Chunk &chunk) {
    DYNAMIC_SHARED(shared);
    __shared__ u32 flag;
    const Settled settled(chunk, &flag);
    Sink sink(chunk);
    for (u64 number = blockIdx.x; number < chunk.group_count; number += gridDim.x) {
        const ProbeGroup group(chunk, number);
        // All threads have left the former group.
        __syncthreads();
        if (threadIdx.x == 0) {
            flag = 0;
        }
        const u32 slots = HashMembers::slots_for(group.size, chunk.shared_words);
        const u32 words = group.size > 0 ? BitmapMembers::words_of(group) : 0;
        const u64 repaid = BITMAP_WORDS + u64{group.end - group.start} * BITMAP_WORDS_PER_CANDIDATE;
        if (0 < words && words <= chunk.shared_words && (words <= repaid || slots == 0)) {
            const BitmapMembers members(group, shared);
            __syncthreads();
            look_up_candidates(chunk, group, members, settled, sink);
        } else if (slots > 0) {
            const HashMembers members(group, shared, slots);
            __syncthreads();
            look_up_candidates(chunk, group, members, settled, sink);
        } else {
            const SortedMembers members(group);
            __syncthreads();
            look_up_candidates(chunk, group, members, settled, sink);
        }
    }
    sink.finish();
}
