// One-bit matrix products of warpgroups, and the ring of stages that feeds them (compute capability
// 9.0). The host compiles each as a function of the same fragments.
#pragma once

#include "warp.cuh"

// Whether the architecture has them.
#if defined(EMULATOR) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WARPGROUP_PRODUCTS 1

// Columns of a product, and the sums of a lane.
constexpr u32 PRODUCT_COLUMNS = 192;
constexpr u32 PRODUCT_SUMS = PRODUCT_COLUMNS / 2;

__device__ __forceinline__ u32 shared_address(const void *address) {
#ifdef EMULATOR
    return static_cast<u32>(reinterpret_cast<u64>(address));
#else
    return static_cast<u32>(__cvta_generic_to_shared(address));
#endif
}

// A barrier that some threads arrive at and others wait for, phase after phase.
struct Gate {
#ifdef EMULATOR
    u32 expected;
    u32 left;
    u32 phase;

    void open(u32 arrivals) { *this = Gate{arrivals, arrivals, 0}; }

    void arrive() {
        if (--left == 0) {
            left = expected;
            phase ^= 1;
        }
    }

    // By all lanes of a warp.
    void wait(u32 parity) const {
        while (__any_sync(ALL_LANES, phase == parity)) {
            emulator::spin();
        }
    }

    // Arrives once `bytes` bytes have been copied.
    void copy(void *to, const void *from, u32 bytes) {
        memcpy(to, from, bytes);
        arrive();
    }
#else
    u64 state;

    __device__ __forceinline__ void open(u32 arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&state)), "r"(arrivals) : "memory");
    }

    __device__ __forceinline__ void arrive() {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&state)) : "memory");
    }

    // Waits for the end of the phase of this parity; the phase before the first one has ended.
    __device__ __forceinline__ void wait(u32 parity) const {
        u32 ended = 0;
        while (ended == 0) {
            asm volatile(
                "{\n"
                ".reg .pred ended;\n"
                "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
                "selp.u32 %0, 1, 0, ended;\n"
                "}"
                : "=r"(ended)
                : "r"(shared_address(&state)), "r"(parity)
                : "memory");
        }
    }

    // Arrives once `bytes` bytes, a multiple of 16, have been copied from global to shared memory.
    __device__ __forceinline__ void copy(void *to, const void *from, u32 bytes) {
        const u32 gate = shared_address(&state);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(gate), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         shared_address(to)),
                     "l"(from), "r"(bytes), "r"(gate)
                     : "memory");
    }
#endif
};

// Makes opened gates known to copies. A barrier of the block follows.
__device__ __forceinline__ void publish_gates() {
#ifndef EMULATOR
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// Makes a thread's writes to shared memory known to products. A barrier of the block follows.
__device__ __forceinline__ void publish_writes() {
#ifndef EMULATOR
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// In front of the first product of some sums.
__device__ __forceinline__ void begin_products() {
#ifndef EMULATOR
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

// Waits for all products of the warpgroup.
__device__ __forceinline__ void end_products() {
#ifndef EMULATOR
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
}

#define SUMS_8(at)                                                                                       \
    "+r"(sums[at]), "+r"(sums[at + 1]), "+r"(sums[at + 2]), "+r"(sums[at + 3]), "+r"(sums[at + 4]),       \
        "+r"(sums[at + 5]), "+r"(sums[at + 6]), "+r"(sums[at + 7])

// The numbers of common bits of a warp's 16 rows and 192 columns, over 256 bits of each, added to
// `sums`, or in their place. Rows and sums of 8 columns each are those of count_common (matrix.cuh);
// the columns lie in shared memory, in octets of WIDTH words a column, from `columns` on. By all
// threads of a warpgroup; `sums` are known behind end_products.
template <u32 WIDTH>
__device__ __forceinline__ void add_product(int (&sums)[PRODUCT_SUMS], const u32 (&a)[4], const u32 *columns, bool add) {
#ifdef EMULATOR
    struct Rows {
        u32 words[4];
    };
    __shared__ Rows lanes[MAX_WARPS][WARP];
    Rows *const warp = lanes[warp_id()];
    memcpy(warp[lane_id()].words, a, sizeof(a));
    __syncwarp();
    for (u32 i = 0; i < PRODUCT_SUMS; ++i) {
        const u32 column = i / 4 * 8 + lane_id() % 4 * 2 + i % 2;
        const u32 *octet = columns + column / 8 * 8 * WIDTH + column % 8 * 4;
        int common = add ? sums[i] : 0;
        for (u32 word = 0; word < 4; ++word) {
            const Rows &row = warp[lane_id() / 4 * 4 + word];
            common += __popc(row.words[i / 2 % 2] & octet[word]) + __popc(row.words[2 + i / 2 % 2] & octet[32 + word]);
        }
        sums[i] = common;
    }
    __syncwarp();
#else
    // Core matrices lie 128 bytes apart along a signature, octets of them along the columns.
    const u64 descriptor = u64{(shared_address(columns) & 0x3ffff) >> 4} | u64{128 >> 4} << 16 | u64{WIDTH * 32 >> 4} << 32;
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %101, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k256.s32.b1.b1.and.popc {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
        "}, {%96, %97, %98, %99}, %100, add;\n"
        "}"
        : SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24), SUMS_8(32), SUMS_8(40), SUMS_8(48), SUMS_8(56), SUMS_8(64),
          SUMS_8(72), SUMS_8(80), SUMS_8(88)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor), "r"(static_cast<int>(add)));
#endif
}

#undef SUMS_8
#endif
