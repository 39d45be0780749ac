// The bits of heavy tokens: a block fills some chunks of an octet of sets in shared memory, a warp for
// each set, and writes them in whole.
#pragma once

#include "large_abi.cuh"
#include "large_path.cuh"
#include "tile_abi.cuh"

// A warp for each set of an octet.
constexpr u32 BITS_THREADS = OCTET * WARP;
// Chunks of a block: with 128 bytes of each set of the octet, 16 KiB of shared memory.
constexpr u32 BITS_CHUNKS = 16;

// The place of a word of a set within its octet of a chunk.
__device__ __forceinline__ u32 chunk_place(u32 set, u32 word) { return word / 4 * 32 + set % OCTET * 4 + word % 4; }

// The octet of a chunk that a set is in, of so many sets.
__device__ __forceinline__ u64 octet_place(u64 chunk, u64 padded, u64 set) {
    return (chunk * padded + set / OCTET * OCTET) * CHUNK_WORDS;
}

__device__ __forceinline__ u32 padded_sets(u32 count) { return (count + LARGE_TILE - 1) / LARGE_TILE * LARGE_TILE; }

// Blocks of BITS_THREADS threads.
__device__ __forceinline__ void fill_bits(const LargeWork &work, const Sets &sets, u32 count, u32 *bits) {
    constexpr u32 WORDS = OCTET * CHUNK_WORDS;
    __shared__ u32 words[BITS_CHUNKS * WORDS];
    const u32 padded = padded_sets(count);
    const u32 octets = padded / OCTET;
    const u32 groups = (work.chunk_count + BITS_CHUNKS - 1) / BITS_CHUNKS;
    for (u64 job = blockIdx.x; job < u64{octets} * groups; job += gridDim.x) {
        const u32 first_set = static_cast<u32>(job % octets) * OCTET;
        const u32 first_chunk = static_cast<u32>(job / octets) * BITS_CHUNKS;
        const u32 chunks = min(BITS_CHUNKS, work.chunk_count - first_chunk);
        // All threads have left the former job.
        __syncthreads();
        for (u32 i = threadIdx.x; i < chunks * WORDS; i += BITS_THREADS) {
            words[i] = 0;
        }
        __syncthreads();
        const u32 set = first_set + warp_id();
        if (set < count) {
            const u64 from = u64{work.slice_first} + u64{first_chunk} * CHUNK_BITS;
            const u64 stop = min(u64{work.slice_end}, from + u64{chunks} * CHUNK_BITS);
            const u64 end = __ldg(&sets.offsets[set + u64{1}]);
            u64 at = search_by_warp(__ldg(&sets.offsets[set]), end,
                                    [&](u64 place) { return __ldg(&sets.tokens[place]) < from; });
            for (at += lane_id(); at < end; at += WARP) {
                const u32 token = __ldg(&sets.tokens[at]);
                if (token >= stop) {
                    break;
                }
                const u32 bit = static_cast<u32>(token - from);
                const u32 word = bit % CHUNK_BITS / 32;
                atomicOr(&words[bit / CHUNK_BITS * WORDS + chunk_place(set, word)], 1u << bit % 32);
            }
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < chunks * WORDS; i += BITS_THREADS) {
            bits[octet_place(first_chunk + i / WORDS, padded, first_set) + i % WORDS] = words[i];
        }
    }
}
