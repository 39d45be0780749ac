// Levenshtein's distance of two texts of codes within a bound, by one thread: the banded bit vectors of
// string/lanes/band.rs, whose header names the source. Only as many diagonals as the bound allows edits,
// and one, lie in the band. Its rows lie in the highest bits of a word; those below it change nothing
// above them, as no code is equal there and so nothing is carried.
#pragma once

#include "text_abi.cuh"

// Whether codes tell the scalars of texts of two pages.
__device__ __forceinline__ bool codes_tell(u32 a, u32 b) {
    const bool agree = a == b || a == ANY_PAGE || b == ANY_PAGE;
    return agree && a != NO_PAGE && b != NO_PAGE;
}

struct TextCodes {
    const u32 *words;
    u32 len;

    // Four codes, NO_CODE behind the end.
    __device__ __forceinline__ u32 word(u32 number) const {
        return 4 * number < len ? __ldg(&words[number]) : NO_CODES;
    }
};

// The codes of a text one after the other, NO_CODE behind its end.
struct TextStream {
    const TextCodes &text;
    u32 next = 0;
    u32 word = 0;

    __device__ __forceinline__ explicit TextStream(const TextCodes &text) : text(text) {}

    __device__ __forceinline__ u32 take() {
        word = next % 4 == 0 ? text.word(next / 4) : word >> 8;
        ++next;
        return word & 0xff;
    }
};

// The last 4 * WORDS codes of a text that were pushed, the newest in the highest byte of the first word.
template <u32 WORDS>
struct CodeWindow {
    u32 words[WORDS];

    __device__ __forceinline__ CodeWindow() {
#pragma unroll
        for (u32 word = 0; word < WORDS; ++word) {
            words[word] = NO_CODES;
        }
    }

    __device__ __forceinline__ void push(u32 code) {
#pragma unroll
        for (u32 word = WORDS - 1; word > 0; --word) {
            words[word] = words[word] >> 8 | words[word - 1] << 24;
        }
        words[0] = words[0] >> 8 | code << 24;
    }

    // Which of them equal a code: the newest in the highest bit.
    __device__ __forceinline__ u32 equal(u32 code) const {
        const u32 four = code * 0x01010101u;
        u32 mask = 0;
#pragma unroll
        for (u32 word = 0; word < WORDS; ++word) {
            // Bytes are below 0x80, so that sums of bytes are no carries.
            const u32 zeros = ~((words[word] ^ four) + 0x7f7f7f7fu) & 0x80808080u;
            mask |= (zeros * 0x00204081u & 0xf0000000u) >> 4 * word;
        }
        return mask;
    }
};

// The distance of `a` and `b`; more than `most` where it is greater than that, which is below 4 * WORDS.
template <u32 WORDS>
__device__ __forceinline__ u32 distance_within(const TextCodes &a, const TextCodes &b, u32 most) {
    const u32 surplus = a.len > b.len ? a.len - b.len : 0;
    const u32 beside = b.len > a.len ? b.len - a.len : 0;
    if (surplus + beside > most) {
        return most + 1;
    }
    const u32 astray = (most - surplus - beside) / 2;
    // Diagonals below the main one: in column j, the highest bit is row j + below.
    const u32 below = astray + surplus;
    // The diagonal that ends in the last cell: its values never sink.
    const u32 counted = 1u << (31 - astray - beside);
    u32 left = most + 1 - surplus - beside;
    u32 plus = ~0u << (31 - below);
    u32 minus = 0;
    CodeWindow<WORDS> window;
    TextStream pattern(a);
    TextStream text(b);
    for (u32 row = 0; row < below; ++row) {
        window.push(pattern.take());
    }
    for (u32 column = 0; column < b.len; ++column) {
        window.push(pattern.take());
        const u32 equal = window.equal(text.take());
        const u32 sum = (equal & plus) + plus;
        const u32 diagonal = (sum ^ plus) | equal | minus;
        const u32 up = minus | ~(diagonal | plus);
        const u32 down = diagonal & plus;
        const u32 shifted = diagonal >> 1;
        plus = down | ~(shifted | up);
        minus = shifted & up;
        if (column >= beside && (diagonal & counted) == 0 && --left == 0) {
            break;
        }
    }
    return most + 1 - left;
}
