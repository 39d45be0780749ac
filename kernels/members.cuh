// Forms of a probe set that answer whether it holds a token. Each is made by a whole block, which
// synchronises before it looks anything up.
#pragma once

#include "pair.cuh"

// Stands for "no token" and "empty slot": no token's rank is that high.
constexpr u32 NO_TOKEN = 0xffffffffu;

// A bit for each rank between the set's least and greatest token. One look-up, whatever the token.
struct BitmapMembers {
    u32 *words;
    u32 least;
    // The word behind those of the set, which is 0: ranks outside the set's range look there.
    u32 guard;

    // The words of shared memory that a set (not empty) takes.
    static __device__ __forceinline__ u32 words_of(const ProbeGroup &group) {
        return (__ldg(&group.tokens[group.size - 1]) - __ldg(&group.tokens[0])) / 32 + 2;
    }

    __device__ __forceinline__ BitmapMembers(const ProbeGroup &group, u32 *shared)
        : words(shared), least(__ldg(&group.tokens[0])), guard(words_of(group) - 1) {
#pragma unroll 1
        for (u32 i = threadIdx.x; i <= guard; i += blockDim.x) {
            words[i] = 0;
        }
        __syncthreads();
#pragma unroll 1
        for (u32 i = threadIdx.x; i < group.size; i += blockDim.x) {
            const u32 rank = __ldg(&group.tokens[i]) - least;
            // Each bit is added once, which sets it.
            atomicAdd(&words[rank / 32], 1u << rank % 32);
        }
    }

    __device__ __forceinline__ bool contain(u32 token) const {
        const u32 rank = token - least;
        return words[min(rank / 32, guard)] >> rank % 32 & 1;
    }
};

// An open-addressing hash table: multiplicative hashing, linear probing, a quarter full where the
// shared memory allows it and half at most.
struct HashMembers {
    u32 *slots;
    u32 mask;
    u32 shift;

    // The slots for a set of `size` tokens within `shared_words` words; 0 where they do not fit.
    static __device__ __forceinline__ u32 slots_for(u32 size, u32 shared_words) {
        if (size == 0 || size > shared_words / 2) {
            return 0;
        }
        const u32 room = 0x80000000u >> __clz(static_cast<int>(shared_words));
        const u32 wanted = 8u << (31 - __clz(static_cast<int>(size)));
        const u32 slots = min(room, wanted);
        return slots / 2 >= size ? slots : 0;
    }

    static __device__ __forceinline__ u32 shift_of(u32 slot_count) {
        return static_cast<u32>(__clz(static_cast<int>(slot_count))) + 1;
    }

    __device__ __forceinline__ HashMembers(const ProbeGroup &group, u32 *shared, u32 slot_count)
        : slots(shared), mask(slot_count - 1), shift(shift_of(slot_count)) {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < slot_count; i += blockDim.x) {
            slots[i] = NO_TOKEN;
        }
        __syncthreads();
#pragma unroll 1
        for (u32 i = threadIdx.x; i < group.size; i += blockDim.x) {
            const u32 token = __ldg(&group.tokens[i]);
            u32 slot = home(token);
            while (atomicCAS(&slots[slot], NO_TOKEN, token) != NO_TOKEN) {
                slot = (slot + 1) & mask;
            }
        }
    }

    // Knuth, "The art of computer programming", volume 3, 6.4: 2^32 over the golden ratio.
    __device__ __forceinline__ u32 home(u32 token) const { return token * 2654435769u >> shift; }

    __device__ __forceinline__ bool contain(u32 token) const {
        u32 slot = home(token);
        for (;;) {
            const u32 held = slots[slot];
            // In this order: NO_TOKEN is in no set.
            if (held == NO_TOKEN) {
                return false;
            }
            if (held == token) {
                return true;
            }
            slot = (slot + 1) & mask;
        }
    }
};

// The sorted tokens where they are: for sets that do not fit into shared memory.
struct SortedMembers {
    const u32 *tokens;
    u32 size;

    __device__ __forceinline__ explicit SortedMembers(const ProbeGroup &group)
        : tokens(group.tokens), size(group.size) {}

    __device__ __forceinline__ bool contain(u32 token) const {
        u32 low = 0;
        u32 high = size;
#pragma unroll 1
        while (low < high) {
            const u32 middle = low + (high - low) / 2;
            if (__ldg(&tokens[middle]) < token) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low < size && __ldg(&tokens[low]) == token;
    }
};
