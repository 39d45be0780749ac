// One-bit matrix products of a warp, and copies to shared memory beside it. The host compiles each
// as a function of the same fragments.
#pragma once

#include "warp.cuh"

// Whether the architecture has them.
#if defined(EMULATOR) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800)
#define HAS_MATRIX_PRODUCTS 1

// The numbers of common bits of 16 rows and 8 columns, over 256 bits of each, added to `from`. With
// lane = 4 * group + place, a lane has word `place` (a[0], b0) and word 4 + `place` (a[2], b1) of row
// `group` and of column `group`, the same of row group + 8 (a[1], a[3]), and gets columns 2 * place
// and 2 * place + 1 of row `group` (to[0], to[1]) and of row group + 8 (to[2], to[3]). By all lanes
// of a warp.
__device__ __forceinline__ void count_common(int (&to)[4], const int (&from)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#ifdef EMULATOR
    struct Fragment {
        u32 a[4];
        u32 b[2];
    };
    __shared__ Fragment fragments[MAX_WARPS][WARP];
    Fragment *const lanes = fragments[warp_id()];
    Fragment &own = lanes[lane_id()];
    memcpy(own.a, a, sizeof(a));
    own.b[0] = b0;
    own.b[1] = b1;
    __syncwarp();
    const u32 group = lane_id() / 4;
    const u32 place = lane_id() % 4;
    for (u32 i = 0; i < 4; ++i) {
        int common = from[i];
        for (u32 word = 0; word < 4; ++word) {
            const Fragment &row = lanes[4 * group + word];
            const Fragment &column = lanes[4 * (2 * place + i % 2) + word];
            common += __popc(row.a[i / 2] & column.b[0]) + __popc(row.a[2 + i / 2] & column.b[1]);
        }
        to[i] = common;
    }
    __syncwarp();
#else
    asm volatile(
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(from[0]), "r"(from[1]), "r"(from[2]),
          "r"(from[3]));
#endif
}

// Begins a copy of 16 bytes from global to shared memory, part of the next group.
__device__ __forceinline__ void copy_beside(uint4 *to, const uint4 *from) {
#ifdef EMULATOR
    *to = *from;
#else
    const u32 address = static_cast<u32>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
#endif
}

// Ends a group of copies of the thread.
__device__ __forceinline__ void end_copies() {
#ifndef EMULATOR
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until everything that the thread has begun to copy has been copied.
__device__ __forceinline__ void wait_for_copies() {
#ifndef EMULATOR
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Waits until all groups of the thread but the last one have been copied.
__device__ __forceinline__ void wait_for_former_copies() {
#ifndef EMULATOR
    asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}
#endif
