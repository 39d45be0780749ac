// Products of halves, summed in f32: by warps (from compute capability 8.0 on) and by warpgroups (9.0).
// The host compiles each as a function of the same fragments, which rounds as vector_bounds.cuh says
// of the hardware: as far down as any device that was looked at.
#pragma once

#include "matrix.cuh"
#include "vector_halves.cuh"
#include "warpgroup.cuh"

#ifdef EMULATOR
// The sum of COUNT products and of what was summed before: all are aligned at the largest, cut towards
// zero `1 << KEPT` below it, added, and cut to 24 bits. Subnormal halves are aligned as if they were not.
template <u32 COUNT, u32 KEPT>
inline float sum_of_products(float before, const u32 *a, const u32 *b) {
    const auto exponent = [](float number) { return static_cast<int>(__float_as_uint(number) >> 23 & 0xff) - 127; };
    int largest = -126;
    float products[COUNT];
    for (u32 i = 0; i < COUNT; ++i) {
        const float x = number_of(a[i / 2] >> i % 2 * 16 & 0xffff);
        const float y = number_of(b[i / 2] >> i % 2 * 16 & 0xffff);
        products[i] = x * y;
        if (products[i] != 0) {
            largest = max(largest, max(max(exponent(x), -14) + max(exponent(y), -14), exponent(products[i])));
        }
    }
    if (before != 0) {
        largest = max(largest, exponent(before));
    }
    const auto power = [](int of) { return __longlong_as_double(static_cast<long long>(of + 1023) << 52); };
    const int kept = static_cast<int>(KEPT) - largest;
    // Conversions to integers cut towards zero.
    auto units = static_cast<long long>(before * power(kept));
    for (const float product : products) {
        units += static_cast<long long>(product * power(kept));
    }
    const double sum = static_cast<double>(units) * power(-kept);
    const auto rounded = static_cast<float>(sum);
    return fabs(rounded) > fabs(sum) ? nextafterf(rounded, 0) : rounded;
}
#endif

#ifdef HAS_MATRIX_PRODUCTS
// Adds the products of 16 rows and 8 columns, over 16 halves of each, to `sums`. With
// lane = 4 * group + place, a lane has halves 2 * place, 2 * place + 1 (a[0], b[0]) and those eight
// behind them (a[2], b[1]) of row `group` and of column `group`, the same of row group + 8 (a[1], a[3]),
// and gets columns 2 * place and 2 * place + 1 of row `group` (sums[0], sums[1]) and of row group + 8.
// By all lanes of a warp.
__device__ __forceinline__ void add_halves_of_warp(float *sums, const u32 (&a)[4], const u32 (&b)[2]) {
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
        for (u32 half = 0; half < 2; ++half) {
            u32 row[4];
            u32 column[4];
            for (u32 word = 0; word < 4; ++word) {
                row[word] = lanes[lane_id() / 4 * 4 + word].a[2 * half + i / 2];
                column[word] = lanes[4 * (lane_id() % 4 * 2 + i % 2) + word].b[half];
            }
            // Eight at a time, with a bit less than warpgroups keep.
            sums[i] = sum_of_products<8, 24>(sums[i], row, column);
        }
    }
    __syncwarp();
#else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// The same in place of the sums.
__device__ __forceinline__ void begin_halves_of_warp(float *sums, const u32 (&a)[4], const u32 (&b)[2]) {
#ifdef EMULATOR
    sums[0] = sums[1] = sums[2] = sums[3] = 0;
    add_halves_of_warp(sums, a, b);
#else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
#endif
}
#endif

#ifdef HAS_WARPGROUP_PRODUCTS
// Columns of a product of halves, the most that the instruction takes, and the sums of a lane: those of
// eight columns as of a warp.
constexpr u32 HALF_COLUMNS = 256;
constexpr u32 HALF_SUMS = HALF_COLUMNS / 2;

// 16 halves of rows or columns in shared memory, in octets of `width` chunks a vector.
struct SharedHalves {
    const u32 *words;
    u32 width;

#ifdef EMULATOR
    void gather(u32 vector, u32 (&halves)[8]) const {
        const u32 *from = words + vector / OCTET * width * 32 + vector % OCTET * 4;
        memcpy(halves, from, 16);
        memcpy(halves + 4, from + 32, 16);
    }
#else
    // Core matrices lie 128 bytes apart along a vector, octets of them along the vectors.
    __device__ __forceinline__ u64 descriptor() const {
        return u64{(shared_address(words) & 0x3ffff) >> 4} | u64{128 >> 4} << 16 | u64{width * 128 >> 4} << 32;
    }
#endif
};

#define SUMS_8(at)                                                                                       \
    "+f"(sums[at]), "+f"(sums[at + 1]), "+f"(sums[at + 2]), "+f"(sums[at + 3]), "+f"(sums[at + 4]),       \
        "+f"(sums[at + 5]), "+f"(sums[at + 6]), "+f"(sums[at + 7])

// The products of a warp's 16 rows and 256 columns, over 16 halves of each, added to `sums`, or in their
// place. Rows are as in add_halves_of_warp. By all threads of a warpgroup; `sums` are known behind
// end_products.
__device__ __forceinline__ void add_halves(float (&sums)[HALF_SUMS], const u32 (&a)[4], const SharedHalves &columns,
                                           bool add) {
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
        for (u32 word = 0; word < 4; ++word) {
            row[word] = warp[lane_id() / 4 * 4 + word].words[i / 2 % 2];
            row[4 + word] = warp[lane_id() / 4 * 4 + word].words[2 + i / 2 % 2];
        }
        columns.gather(i / 4 * 8 + lane_id() % 4 * 2 + i % 2, column);
        sums[i] = sum_of_products<16, 25>(add ? sums[i] : 0, row, column);
    }
    __syncwarp();
#else
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %133, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
        "}, {%128, %129, %130, %131}, %132, add, 1, 1, 0;\n"
        "}"
        : SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24),
          SUMS_8(32), SUMS_8(40), SUMS_8(48), SUMS_8(56),
          SUMS_8(64), SUMS_8(72), SUMS_8(80), SUMS_8(88),
          SUMS_8(96), SUMS_8(104), SUMS_8(112), SUMS_8(120)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(columns.descriptor()), "r"(static_cast<int>(add)));
#endif
}

// The same with the warpgroup's 64 rows in shared memory.
__device__ __forceinline__ void add_halves(float (&sums)[HALF_SUMS], const SharedHalves &rows,
                                           const SharedHalves &columns, bool add) {
#ifdef EMULATOR
    __syncwarp();
    for (u32 i = 0; i < HALF_SUMS; ++i) {
        u32 row[8];
        u32 column[8];
        rows.gather(warp_id() % 4 * 16 + lane_id() / 4 + i / 2 % 2 * 8, row);
        columns.gather(i / 4 * 8 + lane_id() % 4 * 2 + i % 2, column);
        sums[i] = sum_of_products<16, 25>(add ? sums[i] : 0, row, column);
    }
    __syncwarp();
#else
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
        "}, %128, %129, add, 1, 1, 0, 0;\n"
        "}"
        : SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24),
          SUMS_8(32), SUMS_8(40), SUMS_8(48), SUMS_8(56),
          SUMS_8(64), SUMS_8(72), SUMS_8(80), SUMS_8(88),
          SUMS_8(96), SUMS_8(104), SUMS_8(112), SUMS_8(120)
        : "l"(rows.descriptor()), "l"(columns.descriptor()), "r"(static_cast<int>(add)));
#endif
}

#undef SUMS_8

// Registers of the threads of a warpgroup from here on. By all of them. Where two warpgroups multiply and
// a third feeds, they take 232 and leave all but 40: 256 * 232 + 128 * 40 = 384 * 168, what a block of 384
// threads has of the 65,536 of a multiprocessor. Both are multiples of 8, as the instruction wants.
template <u32 REGISTERS>
__device__ __forceinline__ void take_registers() {
#ifndef EMULATOR
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}

template <u32 REGISTERS>
__device__ __forceinline__ void leave_registers() {
#ifndef EMULATOR
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}
#endif
