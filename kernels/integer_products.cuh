// Products of 8-bit integers, summed in s32 and so exact: by warps (from compute capability 8.0 on) and
// by warpgroups (9.0). The host compiles each as a function of the same fragments.
#pragma once

#include "half_products.cuh"

// Integers of a word, of a chunk of 16 bytes, and of a step of products.
constexpr u32 WORD_INTEGERS = 4;
constexpr u32 CHUNK_INTEGERS = 16;
constexpr u32 STEP_INTEGERS = 32;

#ifdef EMULATOR
inline int sum_of_integer_products(int sum, const u32 *a, const u32 *b) {
    const auto number = [](u32 word, u32 i) { return static_cast<int>(static_cast<signed char>(word >> 8 * i)); };
    for (u32 i = 0; i < STEP_INTEGERS; ++i) {
        sum += number(a[i / WORD_INTEGERS], i % WORD_INTEGERS) * number(b[i / WORD_INTEGERS], i % WORD_INTEGERS);
    }
    return sum;
}
#endif

#ifdef HAS_MATRIX_PRODUCTS
// Adds the products of 16 rows and 8 columns, over 32 integers of each, to `sums`. Lanes have words of
// rows and columns, and sums, as in add_halves_of_warp.
__device__ __forceinline__ void add_integers_of_warp(int *sums, const u32 (&a)[4], const u32 (&b)[2]) {
#ifdef EMULATOR
    struct Fragment {
        u32 a[4];
        u32 b[2];
    };
    __shared__ Fragment fragments[MAX_WARPS][WARP];
    Fragment *const lanes = fragments[warp_id()];
    memcpy(lanes[lane_id()].a, a, sizeof(a));
    memcpy(lanes[lane_id()].b, b, sizeof(b));
    __syncwarp();
    for (u32 i = 0; i < 4; ++i) {
        u32 row[8];
        u32 column[8];
        for (u32 word = 0; word < 8; ++word) {
            row[word] = lanes[lane_id() / 4 * 4 + word % 4].a[word / 4 * 2 + i / 2];
            column[word] = lanes[4 * (lane_id() % 4 * 2 + i % 2) + word % 4].b[word / 4];
        }
        sums[i] = sum_of_integer_products(sums[i], row, column);
    }
    __syncwarp();
#else
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
#endif

#ifdef HAS_WARPGROUP_PRODUCTS
#define SUMS_8(at)                                                                                       \
    "+r"(sums[at]), "+r"(sums[at + 1]), "+r"(sums[at + 2]), "+r"(sums[at + 3]), "+r"(sums[at + 4]),       \
        "+r"(sums[at + 5]), "+r"(sums[at + 6]), "+r"(sums[at + 7])

// Adds the products of a warp's 16 rows and 256 columns, over 32 integers of each, to `sums`. Rows are as
// in add_integers_of_warp, columns lie as halves do. By all threads of a warpgroup; `sums` are known
// behind end_products.
__device__ __forceinline__ void add_integers(int (&sums)[HALF_SUMS], const u32 (&a)[4], const SharedHalves &columns) {
#ifdef EMULATOR
    struct Rows {
        u32 words[4];
    };
    __shared__ Rows lanes[MAX_WARPS][WARP];
    Rows *const warp = lanes[warp_id()];
    memcpy(warp[lane_id()].words, a, sizeof(a));
    __syncwarp();
    for (u32 i = 0; i < HALF_SUMS; ++i) {
        u32 row[8];
        u32 column[8];
        for (u32 word = 0; word < 8; ++word) {
            row[word] = warp[lane_id() / 4 * 4 + word % 4].words[word / 4 * 2 + i / 2 % 2];
        }
        columns.gather(i / 4 * 8 + lane_id() % 4 * 2 + i % 2, column);
        sums[i] = sum_of_integer_products(sums[i], row, column);
    }
    __syncwarp();
#else
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %133, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
        "}, {%128, %129, %130, %131}, %132, add;\n"
        "}"
        : SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24),
          SUMS_8(32), SUMS_8(40), SUMS_8(48), SUMS_8(56),
          SUMS_8(64), SUMS_8(72), SUMS_8(80), SUMS_8(88),
          SUMS_8(96), SUMS_8(104), SUMS_8(112), SUMS_8(120)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(columns.descriptor()), "n"(1));
#endif
}

#undef SUMS_8
#endif
