// Kernels that try the emulator: what it must do, and what it must catch.
#pragma once

#include "../types.cuh"

struct SelfTest {
    const u32 *in;
    u32 *out;
    u64 *sum;
    u32 count;
};

// Each thread notes where it is.
extern "C" __global__ void self_test_indices(SelfTest test) {
    const u32 block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const u32 thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const u32 threads = blockDim.x * blockDim.y * blockDim.z;
    test.out[block * threads + thread] = blockIdx.x << 16 | threadIdx.x;
}

// Eight results a lane, of shuffles of every kind and width.
extern "C" __global__ void self_test_shuffles(SelfTest test) {
    const u32 lane = threadIdx.x;
    const u32 all = 0xffffffff;
    u32 *out = test.out + 8 * lane;
    out[0] = __shfl_sync(all, lane, 5);
    out[1] = __shfl_sync(all, lane, 9, 8);
    out[2] = __shfl_up_sync(all, lane, 3);
    out[3] = __shfl_down_sync(all, lane, 3, 16);
    out[4] = __shfl_xor_sync(all, lane, 16);
    out[5] = static_cast<u32>(__shfl_sync(all, u64{lane} << 40, 31) >> 40);
    out[6] = static_cast<u32>(__shfl_up_sync(all, -static_cast<int>(lane), 1, 4));
    // Halves of the warp on their own.
    const u32 half = lane < 16 ? 0x0000ffff : 0xffff0000;
    if (lane < 16) {
        out[7] = __shfl_sync(half, lane, 15);
    } else {
        out[7] = __shfl_sync(half, lane, 16);
    }
}

extern "C" __global__ void self_test_votes(SelfTest test) {
    const u32 lane = threadIdx.x;
    const u32 all = 0xffffffff;
    u32 *out = test.out + 4 * lane;
    out[0] = __ballot_sync(all, lane % 3 == 0);
    out[1] = static_cast<u32>(__any_sync(all, lane == 7));
    out[2] = static_cast<u32>(__all_sync(all, lane != 7));
    __syncwarp();
    out[3] = static_cast<u32>(__popc(out[0]) + __ffs(static_cast<int>(out[0])) + __clz(1));
}

// The sum of a block's inputs by way of shared memory, static and dynamic, and of shuffles.
extern "C" __global__ void self_test_block_sum(SelfTest test) {
    __shared__ u32 warp_sums[32];
    DYNAMIC_SHARED(staged);
    staged[threadIdx.x] = test.in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    u32 sum = staged[blockDim.x - 1 - threadIdx.x];
    for (u32 delta = 16; delta > 0; delta /= 2) sum += __shfl_down_sync(0xffffffff, sum, delta);
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 total = 0;
        for (u32 warp = 0; warp < blockDim.x / 32; ++warp) total += warp_sums[warp];
        test.out[blockIdx.x] = total;
    }
}

// Reads what another thread writes without a barrier between the two.
extern "C" __global__ void self_test_missing_barrier(SelfTest test) {
    DYNAMIC_SHARED(staged);
    staged[threadIdx.x] = threadIdx.x;
    test.out[threadIdx.x] = staged[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void self_test_atomics(SelfTest test) {
    atomicAdd(test.sum, u64{1} << 32);
    atomicMax(test.out, blockIdx.x * blockDim.x + threadIdx.x);
    u32 seen = test.out[1];
    while (true) {
        const u32 found = atomicCAS(test.out + 1, seen, seen + 2);
        if (found == seen) break;
        seen = found;
    }
}

extern "C" __global__ void self_test_barrier_not_reached(SelfTest test) {
    if (threadIdx.x == test.count) return;
    __syncthreads();
}

extern "C" __global__ void self_test_shuffle_not_reached(SelfTest test) {
    if (threadIdx.x != test.count) __shfl_sync(0xffffffff, threadIdx.x, 0);
}

// The page at the lowest addresses belongs to no allocation; `count` is an address in it.
extern "C" __global__ void self_test_null(SelfTest test) {
    *reinterpret_cast<volatile u32 *>(u64{test.count}) = threadIdx.x;
}

extern "C" __global__ void self_test_write_behind(SelfTest test) { test.out[test.count] = 1; }

extern "C" __global__ void self_test_read_far_behind(SelfTest test) {
    test.out[0] = test.in[test.count + 64];
}

extern "C" __global__ void self_test_shared_behind(SelfTest test) {
    DYNAMIC_SHARED(staged);
    staged[test.count] = 1;
}

namespace self_test {

__device__ __noinline__ u32 descend(volatile u32 *deeper, u32 depth) {
    volatile u32 frame[256];
    frame[depth % 256] = *deeper;
    return depth == 0xffffffff ? 0 : descend(frame, depth + 1) + frame[0];
}

}  // namespace self_test

struct Fill {
    u32 *out;
    u32 first;
    u32 count;
};

// Counts from `first`. crates/simjoin-gpu/src/crates/simjoin-gpu/tests/harness/works.rs has the same for devices.
extern "C" __global__ void self_test_fill(Fill fill) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < fill.count) fill.out[i] = fill.first + i;
}

extern "C" __global__ void self_test_endless_stack(SelfTest test) {
    test.out[0] = self_test::descend(test.out, 0);
}
