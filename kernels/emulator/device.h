// CUDA's device language for the kernels' sources compiled as C++ on the host: the part that they
// use. Included in front of them. See block.h for what runs underneath.
#pragma once

#include <cmath>
#include <cstring>
#include <type_traits>

#include "block.h"

// Tells the kernels' sources where they are compiled.
#define EMULATOR 1

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __restrict__ __restrict
#define __grid_constant__
#define __launch_bounds__(...)
// A block stays on one OS thread, and no two blocks share it at a time.
#define __shared__ static thread_local
#define DYNAMIC_SHARED(name) \
    unsigned int *const name = static_cast<unsigned int *>(emulator::dynamic_shared())
#define ALIGNED_SHARED(name) DYNAMIC_SHARED(name)

#define threadIdx (emulator::thread_index())
#define blockIdx (emulator::block_index())
#define blockDim (emulator::block_size())
#define gridDim (emulator::grid_size())
constexpr int warpSize = emulator::WARP;

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

inline void __syncthreads() { emulator::barrier(false); }
inline int __syncthreads_count(int predicate) {
    return static_cast<int>(emulator::barrier(predicate != 0));
}
inline int __syncthreads_or(int predicate) { return emulator::barrier(predicate != 0) != 0; }
inline int __syncthreads_and(int predicate) { return emulator::barrier(predicate == 0) == 0; }

inline void __syncwarp(unsigned mask = 0xffffffff) {
    emulator::collective(emulator::Collective::sync, "__syncwarp", mask, 0, 0, 0);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
    return static_cast<unsigned>(emulator::collective(emulator::Collective::vote, "__ballot_sync",
                                                      mask, predicate != 0, 0, 0));
}
inline int __any_sync(unsigned mask, int predicate) {
    return emulator::collective(emulator::Collective::vote, "__any_sync", mask, predicate != 0, 0,
                                0) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
    return emulator::collective(emulator::Collective::vote, "__all_sync", mask, predicate != 0, 0,
                                0) == mask;
}

namespace emulator {

template <typename T>
T exchange(const char *name, unsigned mask, T value, unsigned source, int width) {
    static_assert(std::is_arithmetic_v<T>, "as in CUDA, numbers of 4 or 8 bytes are shuffled");
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    bits = collective(Collective::shuffle, name, mask, bits, source, width);
    std::memcpy(&value, &bits, sizeof(T));
    return value;
}

// The first lane of the segment of `width` lanes that this thread is in.
inline unsigned segment(int width) { return lane() / static_cast<unsigned>(width) * width; }

}  // namespace emulator

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
    const unsigned from = emulator::segment(width) + (static_cast<unsigned>(source) & (width - 1));
    return emulator::exchange("__shfl_sync", mask, value, from, width);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
    const unsigned lane = emulator::lane();
    const bool inside = lane >= emulator::segment(width) + delta;
    return emulator::exchange("__shfl_up_sync", mask, value, inside ? lane - delta : lane, width);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
    const unsigned lane = emulator::lane();
    const bool inside = lane + delta < emulator::segment(width) + width;
    return emulator::exchange("__shfl_down_sync", mask, value, inside ? lane + delta : lane, width);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize) {
    const unsigned lane = emulator::lane();
    const unsigned from = lane ^ static_cast<unsigned>(lanes);
    // Later segments are out of reach, earlier ones are not.
    const bool inside = from < emulator::segment(width) + width;
    return emulator::exchange("__shfl_xor_sync", mask, value, inside ? from : lane, width);
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(static_cast<unsigned>(bits)) : 32; }
inline int __clzll(long long bits) {
    return bits ? __builtin_clzll(static_cast<unsigned long long>(bits)) : 64;
}

template <typename T>
T __ldg(const T *address) {
    return *address;
}

// Real atomics: kernels of several streams share the device's memory.
template <typename T>
T atomicAdd(T *address, std::common_type_t<T> value) {
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
template <typename T>
T atomicOr(T *address, std::common_type_t<T> bits) {
    return __atomic_fetch_or(address, bits, __ATOMIC_RELAXED);
}
template <typename T>
T atomicExch(T *address, std::common_type_t<T> value) {
    return __atomic_exchange_n(address, value, __ATOMIC_RELAXED);
}
template <typename T>
T atomicCAS(T *address, std::common_type_t<T> expected, std::common_type_t<T> value) {
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
template <typename T>
T atomicMax(T *address, std::common_type_t<T> value) {
    T found = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (found < value &&
           !__atomic_compare_exchange_n(address, &found, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return found;
}

// As CUDA's: one signed and one unsigned operand compare as unsigned.
template <typename A, typename B>
constexpr std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <typename A, typename B>
constexpr std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}

namespace emulator {

template <typename To, typename From>
To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof(To));
    return to;
}

}  // namespace emulator

inline unsigned __float_as_uint(float number) { return emulator::bits_as<unsigned>(number); }
inline int __float_as_int(float number) { return emulator::bits_as<int>(number); }
inline float __uint_as_float(unsigned bits) { return emulator::bits_as<float>(bits); }
inline long long __double_as_longlong(double number) { return emulator::bits_as<long long>(number); }
inline double __longlong_as_double(long long bits) { return emulator::bits_as<double>(bits); }

// The compiler cannot fuse what it has to store.
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) {
    const volatile double product = a * b;
    return product;
}
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double number) { return std::sqrt(number); }
inline float __double2float_rd(double number) {
    const auto nearest = static_cast<float>(number);
    return nearest > number ? std::nextafterf(nearest, -HUGE_VALF) : nearest;
}
inline float __double2float_ru(double number) {
    const auto nearest = static_cast<float>(number);
    return nearest < number ? std::nextafterf(nearest, HUGE_VALF) : nearest;
}

// The bits between the highest of `low` and those of `high`, moved left.
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>(((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31)) >> 32);
}

inline int __vimax3_s32(int a, int b, int c) { return max(max(a, b), c); }
