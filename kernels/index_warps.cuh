// A warp a row: the lists of its prefix are read side by side, a posting a lane, and each posting is
// decided by itself. At the first common token of a pair the whole overlap is that token and what
// both suffixes share: at most the tokens of the smaller one, and (r + r' - d) / 2 of r and r' tokens
// where the signatures differ in d bits, as each differing bit stands for a token of one side alone.
// A pair that can match passes there, whatever its later common tokens say.
#pragma once

#include "index_build.cuh"
#include "index_rows.cuh"

// Suffixes of larger sets fill a signature: they are not signed.
constexpr u32 SIGNED_SIZE = 512;

// The signatures of what stands behind the tokens of a row from `slice` on, a token a lane. By all
// lanes of a warp.
__device__ __forceinline__ u32 sign_suffixes(const IndexWork &work, const Row &row, u32 slice) {
    u32 behind = 0;
#pragma unroll 1
    for (u32 at = slice + WARP + lane_id(); at < row.known; at += WARP) {
        behind |= 1u << row.token(work, at) % 32;
    }
    u32 all;
    bits_above(behind, all);
    const u32 at = slice + lane_id();
    u32 of_slice;
    return bits_above(at < row.known ? 1u << row.token(work, at) % 32 : 0, of_slice) | all;
}

// The first lane whose `sum` is above `item`; these sums ascend, and the last one is. By all lanes.
__device__ __forceinline__ u32 lane_above(u32 sum, u32 item) {
    u32 lane = 0;
#pragma unroll
    for (u32 step = WARP / 2; step > 0; step /= 2) {
        const u32 there = __shfl_sync(ALL_LANES, sum, static_cast<int>(lane + step - 1));
        lane += there <= item ? step : 0;
    }
    return lane;
}

__device__ __forceinline__ bool probe_row(const IndexWork &work, const Row &row, u64 &postings) {
    const bool is_signed = row.known <= SIGNED_SIZE;
    u64 read = 0;
    for (u32 slice = row.state.place; slice < row.prefix; slice += WARP) {
        const u32 own = slice + lane_id();
        const List list = own < row.prefix ? row.list(work, own) : List{0, 0};
        const u32 to_lane = sum_to_lane(list.length);
        const u32 total = __shfl_sync(ALL_LANES, to_lane, WARP - 1);
        if (total == 0) {
            continue;
        }
        const u32 signature = is_signed ? sign_suffixes(work, row, slice) : 0;
#pragma unroll 1
        for (u32 base = 0; base < total; base += WARP) {
            const u32 item = base + lane_id();
            const u32 lane = min(lane_above(to_lane, item), WARP - 1);
            const u32 begin = __shfl_sync(ALL_LANES, list.begin, static_cast<int>(lane));
            const u32 before = __shfl_sync(ALL_LANES, to_lane - list.length, static_cast<int>(lane));
            const u32 bits = __shfl_sync(ALL_LANES, signature, static_cast<int>(lane));
            IndexCandidate candidate{row.state.row, 0, slice + lane, 0};
            bool passes = false;
            if (item < total) {
                const u32 posting = begin + (item - before);
                candidate.column = __ldg(&work.postings.sets[posting]);
                const PostingPlace place = work.postings.places[posting];
                candidate.column_at = place.at;
                const u32 required = required_of(work, row.run, place.size_class);
                const u32 row_behind = row.known - candidate.row_at - 1;
                const u32 column_behind = __ldg(&work.sizes[place.size_class]) - place.at - 1;
                u32 common = min(row_behind, column_behind);
                if (is_signed) {
                    const u32 differing =
                        static_cast<u32>(__popc(bits ^ __ldg(&work.postings.signatures[posting])));
                    common = min(common, (row_behind + column_behind - differing) / 2);
                }
                passes = required != NO_OVERLAP && common + 1 >= required;
            }
            const bool is_over = read >= work.row_budget;
            const bool has_room = is_over || add_candidates(work, passes, candidate);
            if (is_over || !has_room) {
                if (lane_id() == 0) {
                    leave(work, RowState{row.state.row, candidate.row_at, candidate.column});
                }
                postings += read;
                return has_room;
            }
            read += WARP;
        }
    }
    postings += read;
    return true;
}

__device__ __forceinline__ void probe_by_warps(const IndexWork &work) {
    each_row_of_warps(work, [&](const Row &row, u32, u64 &postings) { return probe_row(work, row, postings); });
}
