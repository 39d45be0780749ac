// Vectors of halves: conversions, and where their chunks lie.
#pragma once

#include "vector_abi.cuh"

// Halves of a chunk, and bytes.
constexpr u32 CHUNK_HALVES = 8;
constexpr u32 CHUNK_BYTES = 16;
// Chunks of a step of products, and of a whole block of steps.
constexpr u32 STEP_CHUNKS = 2;
constexpr u32 BLOCK_CHUNKS = 8;
// The least half that is not subnormal.
constexpr double LEAST_HALF = 1.0 / (1 << 14);

template <class Number>
__device__ __forceinline__ Number infinity();

template <>
__device__ __forceinline__ double infinity<double>() {
    return __longlong_as_double(0x7ff0000000000000LL);
}

template <>
__device__ __forceinline__ float infinity<float>() {
    return __uint_as_float(0x7f800000);
}

// The bits of the half nearest to a number, of two the even one.
__device__ __forceinline__ u32 half_of(double number) {
#ifdef EMULATOR
    const u64 bits = static_cast<u64>(__double_as_longlong(number));
    const u32 sign = static_cast<u32>(bits >> 48 & 0x8000);
    const double magnitude = fabs(number);
    if (!(magnitude < 65520.0)) {
        return sign | (magnitude == magnitude ? 0x7c00 : 0x7e00);
    }
    // rint rounds to even. Units in the last place of the number's binade, or of subnormals.
    int exponent = -14;
    while (exponent < 15 && magnitude >= ldexp(1.0, exponent + 1)) {
        ++exponent;
    }
    const u32 units = static_cast<u32>(rint(ldexp(magnitude, 10 - exponent)));
    // A carry out of the fraction is one to the exponent.
    return sign | ((static_cast<u32>(exponent + 14) << 10) + units);
#else
    unsigned short half;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(half) : "d"(number));
    return half;
#endif
}

// The number that a half is.
__device__ __forceinline__ float number_of(u32 half) {
#ifdef EMULATOR
    const u32 exponent = half >> 10 & 0x1f;
    const u32 fraction = half & 0x3ff;
    const u32 sign = (half & 0x8000) << 16;
    if (exponent == 0) {
        const float magnitude = static_cast<float>(fraction) / (1 << 24);
        return sign ? -magnitude : magnitude;
    }
    return __uint_as_float(sign | (exponent == 31 ? 0xffu : exponent + 112) << 23 | fraction << 13);
#else
    float number;
    asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(static_cast<unsigned short>(half)));
    return number;
#endif
}

// Eight halves.
struct Chunk8 {
    u32 words[4] = {};

    __device__ __forceinline__ void set(u32 place, u32 half) { words[place / 2] |= half << place % 2 * 16; }

    __device__ __forceinline__ float number(u32 place) const {
        return number_of(words[place / 2] >> place % 2 * 16 & 0xffff);
    }

    __device__ __forceinline__ void store(void *to) const {
        *static_cast<uint4 *>(to) = uint4{words[0], words[1], words[2], words[3]};
    }

    __device__ __forceinline__ static Chunk8 load(const void *from) {
        const uint4 quad = *static_cast<const uint4 *>(from);
        return Chunk8{{quad.x, quad.y, quad.z, quad.w}};
    }
};

// How vectors of halves lie in an array. See vector_abi.cuh.
struct HalfLayout {
    u32 padded;
    u32 chunks;
    u32 blocked;

    __device__ __forceinline__ HalfLayout(u32 padded, u32 steps, u32 blocked)
        : padded(padded), chunks(STEP_CHUNKS * steps), blocked(blocked) {}

    // Where a chunk of a vector lies, in bytes.
    __device__ __forceinline__ u64 place(u32 vector, u32 chunk) const {
        u32 first = 0;
        u32 width = chunks;
        if (blocked) {
            const u32 last = chunks - STEP_CHUNKS;
            first = chunk < last ? chunk / BLOCK_CHUNKS * BLOCK_CHUNKS : last;
            width = chunk < last ? min(BLOCK_CHUNKS, last - first) : STEP_CHUNKS;
        }
        return u64{first} * CHUNK_BYTES * padded + within(vector, chunk - first, width);
    }

    // The same within an array, or a block, of `width` chunks a vector.
    __device__ __forceinline__ static u64 within(u32 vector, u32 chunk, u32 width) {
        return (u64{vector / OCTET} * width + chunk) * (OCTET * CHUNK_BYTES) + vector % OCTET * CHUNK_BYTES;
    }

    // The bytes of all vectors.
    __device__ __forceinline__ u64 end() const { return u64{padded} * chunks * CHUNK_BYTES; }
};

// Where a chunk of a row or column lies. A row's last step is in its tail.
__device__ __forceinline__ const void *column_chunk(const VectorWork &work, u32 column, u32 chunk) {
    const HalfLayout layout(work.columns.padded, work.steps, work.blocked);
    return static_cast<const char *>(work.columns.numbers) + layout.place(column - work.columns.first, chunk);
}

__device__ __forceinline__ const void *row_chunk(const VectorWork &work, u32 row, u32 chunk) {
    const HalfLayout layout(work.rows.padded, work.steps, work.blocked);
    const u32 last = layout.chunks - STEP_CHUNKS;
    const u32 vector = row - work.rows.first;
    return chunk < last ? static_cast<const char *>(work.rows.numbers) + layout.place(vector, chunk)
                        : static_cast<const char *>(work.rows.tails) +
                              HalfLayout::within(vector, chunk - last, STEP_CHUNKS);
}
