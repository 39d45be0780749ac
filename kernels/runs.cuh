// Runs of sets, rows or columns.
#pragma once

#include "types.cuh"

// The last of some runs that begins at `first` or before.
template <class Run>
__device__ __forceinline__ Run run_before(const Run *runs, u32 count, u32 first) {
    u32 low = 0;
    u32 high = count - 1;
    while (low < high) {
        const u32 middle = (low + high + 1) / 2;
        if (__ldg(&runs[middle].first) <= first) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return runs[low];
}
