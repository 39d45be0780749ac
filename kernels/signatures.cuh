// Signatures of sets, made from their tokens, and the columns that rows are tested with.
#pragma once

#include "tile_abi.cuh"
#include "warp.cuh"

// The widest signature, in words.
constexpr u32 MAX_WIDTH = 32;

// Where four words of a set begin.
__device__ __forceinline__ u64 place_of(u32 set, u32 width, u32 quad) {
    return u64{set / OCTET} * (OCTET * width) + quad * 32 + set % OCTET * 4;
}

__device__ __forceinline__ u32 bit_of(const Signing &signing, u32 token) {
    const u32 number = signing.universe - 1 - token;
    if (number < signing.owned) {
        return number;
    }
    const u32 hashed = 1u << signing.hashed_log;
    const u32 dealt = number - signing.owned;
    const u32 place = dealt & (hashed - 1);
    // Forth and back, so that no bit gets the more frequent token of every round.
    return signing.owned + (dealt >> signing.hashed_log & 1 ? hashed - 1 - place : place);
}

// The place of a size among ascending ones, which hold it.
__device__ __forceinline__ u32 class_of(const Signing &signing, u32 size) {
    u32 low = 0;
    u32 high = signing.size_count;
    while (low < high) {
        const u32 middle = (low + high) / 2;
        if (__ldg(&signing.sizes[middle]) < size) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// A warp signs a set, a lane keeps a word.
__device__ __forceinline__ void sign(const Signing &signing) {
    __shared__ u32 shared[MAX_WARPS * MAX_WIDTH];
    u32 *words = shared + warp_id() * MAX_WIDTH;
    const u32 lane = lane_id();
    const u32 step = gridDim.x * warps();
    for (u32 set = blockIdx.x * warps() + warp_id(); set < signing.padded; set += step) {
        words[lane] = 0;
        __syncwarp();
        u32 size = 0;
        if (set < signing.count) {
            const u64 first = __ldg(&signing.sets.offsets[set]);
            const u64 end = __ldg(&signing.sets.offsets[set + u64{1}]);
            size = static_cast<u32>(end - first);
            for (u64 at = first + lane; at < end; at += WARP) {
                const u32 bit = bit_of(signing, __ldg(&signing.sets.tokens[at]));
                atomicOr(&words[bit / 32], 1u << bit % 32);
            }
        }
        __syncwarp();
        const u32 word = words[lane];
        const u32 bits = sum_of_lanes<WARP>(static_cast<u32>(__popc(word)));
        if (lane < signing.width) {
            signing.words[place_of(set, signing.width, lane / 4) + lane % 4] = word;
        }
        if (lane == 0) {
            signing.hidden[set] = size - bits;
            if (signing.classes) {
                signing.classes[set] = class_of(signing, size);
            }
        }
        // All words have been read.
        __syncwarp();
    }
}

// A thread unites the same word of some neighbours.
__device__ __forceinline__ void unite(const Uniting &uniting) {
    const u64 total = u64{uniting.padded} / uniting.members * uniting.width;
    const u64 step = u64{gridDim.x} * blockDim.x;
    for (u64 at = u64{blockIdx.x} * blockDim.x + threadIdx.x; at < total; at += step) {
        const u32 column = static_cast<u32>(at / uniting.width);
        const u32 word = static_cast<u32>(at % uniting.width);
        u32 bits = 0;
        for (u32 member = 0; member < uniting.members; ++member) {
            const u32 set = column * uniting.members + member;
            bits |= uniting.words[place_of(set, uniting.width, word / 4) + word % 4];
        }
        uniting.unions[place_of(column, uniting.width, word / 4) + word % 4] = bits;
    }
}

// A warp finds the least and the greatest class of a stage.
__device__ __forceinline__ void range_of_stages(const Uniting &uniting) {
    const u32 step = gridDim.x * warps();
    for (u32 stage = blockIdx.x * warps() + warp_id(); stage < uniting.stages; stage += step) {
        u32 least = NEVER;
        u32 greatest = 0;
        const u32 first = stage * uniting.stage_sets;
        const u32 end = min(first + uniting.stage_sets, uniting.count);
        for (u32 set = first + lane_id(); set < end; set += WARP) {
            const u32 of_set = __ldg(&uniting.classes[set]);
            least = min(least, of_set);
            greatest = max(greatest, of_set);
        }
        for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
            least = min(least, __shfl_xor_sync(ALL_LANES, least, static_cast<int>(distance)));
            greatest = max(greatest, __shfl_xor_sync(ALL_LANES, greatest, static_cast<int>(distance)));
        }
        if (lane_id() == 0) {
            uniting.stage_classes[2 * stage] = least;
            uniting.stage_classes[2 * stage + 1] = greatest;
        }
    }
}
