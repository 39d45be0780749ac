// Signs texts: one bit for each of some elements, which are a code and how often it has occurred before.
// Every edit changes at most one element of a text and one of the other.
#pragma once

#include "text_abi.cuh"
#include "warp.cuh"

// Both bits of a pair of words, of all lanes of a warp.
template <class Combine>
__device__ __forceinline__ u64 combine_lanes(u64 value, Combine combine) {
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        value = combine(value, __shfl_xor_sync(ALL_LANES, value, distance));
    }
    return value;
}

// The occurrences of each code in the text of a thread, four bits each, and the signature so far.
struct TextSigner {
    u32 *seen;
    const u32 *bits;
    u64 signature = 0;

    // `seen`: 8 words in steps of TEXT_STAGE.
    __device__ __forceinline__ TextSigner(u32 *seen, const u32 *bits) : seen(seen), bits(bits) {
        for (u32 word = 0; word < 8; ++word) {
            seen[word * TEXT_STAGE] = 0;
        }
    }

    __device__ __forceinline__ void add(u32 code) {
        u32 &word = seen[code / 8 * TEXT_STAGE];
        const u32 shift = code % 8 * 4;
        const u32 occurrence = word >> shift & 15;
        // Further occurrences are like the last one that is told apart.
        if (occurrence < OCCURRENCES - 1) {
            word += 1u << shift;
        }
        const u32 element = code * OCCURRENCES + occurrence;
        const u32 bit = bits[element / 4] >> element % 4 * 8 & 0xff;
        if (bit < NO_BIT) {
            signature |= u64{1} << bit;
        }
    }
};

// By blocks of TEXT_STAGE threads, a text each.
__device__ __forceinline__ void sign_texts(const TextSigning &signing) {
    __shared__ u32 seen[8 * TEXT_STAGE];
    __shared__ u32 bits[64 * OCCURRENCES / 4];
    __shared__ u64 unions[TEXT_STAGE / WARP];
    __shared__ u64 commons[TEXT_STAGE / WARP];
    for (u32 word = threadIdx.x; word < 64 * OCCURRENCES / 4; word += blockDim.x) {
        bits[word] = signing.bits[word];
    }
    __syncthreads();
    const u32 stages = (signing.count + TEXT_STAGE - 1) / TEXT_STAGE;
    for (u32 stage = blockIdx.x; stage < stages; stage += gridDim.x) {
        const u32 item = stage * TEXT_STAGE + threadIdx.x;
        const bool is_text = item < signing.count;
        TextSigner signer(seen + threadIdx.x, bits);
        if (is_text) {
            const u32 len = signing.lens[item];
            const u32 *words = signing.words + signing.starts[item];
            u32 word = 0;
            for (u32 at = 0; at < len; ++at) {
                word = at % 4 == 0 ? words[at / 4] : word >> 8;
                signer.add(word & 0x3f);
            }
            signing.signatures[item] = signer.signature;
        }
        if (!signing.boxes) {
            continue;
        }
        const u64 all = combine_lanes(is_text ? signer.signature : 0, [](u64 a, u64 b) { return a | b; });
        const u64 common = combine_lanes(is_text ? signer.signature : ~u64{0}, [](u64 a, u64 b) { return a & b; });
        if (lane_id() == 0) {
            unions[warp_id()] = all;
            commons[warp_id()] = common;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            signing.boxes[2 * stage] = unions[0] | unions[1];
            signing.boxes[2 * stage + 1] = commons[0] & commons[1];
        }
        __syncthreads();
    }
}
