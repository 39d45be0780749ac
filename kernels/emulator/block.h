// Runs a kernel's blocks, one after the other, on the calling OS thread.
//
// Each thread of a block is a fiber that runs until it reaches a barrier or a warp collective, or
// returns. Which of the runnable fibers goes on is pseudo-random, so that a result that lacks a
// barrier shows, and reproducible: it follows from EMULATOR_SEED, the kernel's name and the block.
// A collective ends once all the lanes of its mask are in the same one with the same mask, a barrier
// once all threads of the block are in it; a thread that has returned counts as missing in both,
// which is stricter than the hardware. When no fiber can go on the launch has failed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

struct Dimensions {
    unsigned x, y, z;

    uint64_t product() const { return uint64_t{x} * y * z; }
};

// A kernel with one argument, passed by value.
struct Kernel {
    const char *name;
    size_t argument_bytes;
    void (*run)(const void *argument);
};

// The kernel of that name; null where there is none.
const Kernel *find_kernel(const char *name);

struct Launch {
    const Kernel *kernel;
    const void *argument;
    Dimensions grid;
    Dimensions block;
    size_t shared_bytes;
};

// CUDA_SUCCESS; CUDA_ERROR_LAUNCH_FAILED after a deadlock; CUDA_ERROR_ILLEGAL_ADDRESS after an
// access outside of memory or of dynamic shared memory. What went wrong goes to stderr.
int run_grid(const Launch &launch);

constexpr unsigned WARP = 32;

enum class Collective : uint8_t { sync, shuffle, vote };

// What device code sees of the thread that runs.
Dimensions thread_index();
Dimensions block_index();
Dimensions block_size();
Dimensions grid_size();
void *dynamic_shared();

// __syncthreads: the number of threads whose `predicate` holds.
unsigned barrier(bool predicate);

// A warp collective. Shuffle: the value of lane `source`. Vote: the lanes whose value is not 0.
// `name` and `width` must agree among the lanes, too.
uint64_t collective(Collective kind, const char *name, uint32_t mask, uint64_t value,
                    unsigned source, int width);

// This thread's lane.
unsigned lane();

// In a loop that waits for another warp of the block, around a collective: the others go on.
void spin();

}  // namespace emulator
