// Optimized binary search, OBS (Hu, Liu, Huang: "TriCore: parallel triangle counting on GPUs", SC 2018):
// each value of the shorter run is searched in the longer one, the top of whose tree lies in shared
// memory. IP-OBS cuts the path of the runs for blocks first.
#pragma once

#include "published_paths.cuh"

// Nodes of the top of the tree, in levels: node 1 is the root.
constexpr u32 TREE_LEVELS = 10;
constexpr u32 TREE_NODES = 1u << TREE_LEVELS;
// Values of the longest part that a block takes of a path.
constexpr u32 PATH_PART = 8192;

struct Tree {
    Run run;
    const u32 *nodes;

    // By all threads of a block.
    __device__ __forceinline__ Tree(const Run &run, u32 *nodes) : run(run), nodes(nodes) {
        // All threads have left the former tree.
        __syncthreads();
        for (u32 node = threadIdx.x; node < TREE_NODES; node += blockDim.x) {
            u64 low = 0;
            u64 high = run.count;
            // The path of a node: its bits behind the highest one.
            for (int bit = 30 - __clz(static_cast<int>(node)); node > 0 && bit >= 0 && low < high; --bit) {
                const u64 middle = low + (high - low) / 2;
                if (node >> bit & 1) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            nodes[node] = node > 0 && low < high ? __ldg(&run.values[low + (high - low) / 2]) : 0;
        }
        __syncthreads();
    }

    __device__ __forceinline__ bool has(u32 value) const {
        u64 low = 0;
        u64 high = run.count;
        u32 node = 1;
        while (low < high) {
            const u64 middle = low + (high - low) / 2;
            const u32 found = node < TREE_NODES ? nodes[node] : __ldg(&run.values[middle]);
            if (found == value) {
                return true;
            }
            const bool right = found < value;
            low = right ? middle + 1 : low;
            high = right ? high : middle;
            node = node < TREE_NODES ? 2 * node + right : node;
        }
        return false;
    }
};

// Searches the values of the shorter run from `first` on, `step` apart. By all threads of a block.
__device__ __forceinline__ u32 search_values(const Run &a, const Run &b, u64 first, u64 step) {
    __shared__ u32 nodes[TREE_NODES];
    const Run shorter = a.count <= b.count ? a : b;
    const Tree tree(a.count <= b.count ? b : a, nodes);
    u32 common = 0;
    for (u64 i = first; i < shorter.count; i += step) {
        common += tree.has(__ldg(&shorter.values[i]));
    }
    return common;
}

__device__ __forceinline__ void by_searches(const PairsWork &work) {
    for (u64 item = blockIdx.x; item < PairPart::items(work); item += gridDim.x) {
        const PairPart part(work, item);
        const u64 first = u64{part.part} * blockDim.x + threadIdx.x;
        part.give(work, search_values(part.a, part.b, first, u64{work.parts} * blockDim.x));
    }
}

__device__ __forceinline__ void by_paths_and_searches(const PairsWork &work) {
    for (u64 item = blockIdx.x; item < PairPart::items(work); item += gridDim.x) {
        const PairPart part(work, item);
        const u64 end = part.diagonal(work, part.part + 1);
        u32 common = 0;
        for (u64 from = part.diagonal(work, part.part); from < end; from += PATH_PART) {
            const Rectangle of = rectangle(part.a, part.b, from, min(end, from + PATH_PART));
            common += search_values(of.a, of.b, threadIdx.x, blockDim.x) + (threadIdx.x == 0 ? of.hidden : 0);
        }
        part.give(work, common);
    }
}
