// Verification kernels of the literature, for measurements (Bellas, Gounaris: "An empirical
// evaluation of exact set similarity join techniques using GPUs", Information Systems 2020). A join
// runs them only where simjoin.debug.gpu_layout names them; they are an image of their own, which is
// loaded with their first launch. The third layout of the paper, a block for each pair, is in
// block_per_pair.cuh: joins choose it for large sets.
#include "pair.cuh"
#include "sink.cuh"

// Merges the tokens left of an open pair by one thread; `probe` are the probe set's `size` tokens,
// in shared or global memory. Stops when the required overlap is out of reach or, unless `exact`,
// reached.
__device__ __forceinline__ void merge(Pair &pair, const u32 *probe, u32 size, u32 exact) {
    probe += size - pair.probe_left;
    const u32 *build = pair.tokens;
    // The tokens of each side that may go without a partner: both sums are at least `required`,
    // since the pair is open.
    u32 spare_probe = pair.overlap + pair.probe_left - pair.required;
    u32 spare_build = pair.overlap + pair.left - pair.required;
    const u32 *const probe_end = probe + pair.probe_left;
    const u32 *const build_end = build + pair.left;
    const u32 enough = exact ? 0xffffffffu : pair.required;
    u32 p = *probe;
    u32 b = __ldg(build);
    for (;;) {
        const bool next_probe = p <= b;
        const bool next_build = b <= p;
        if (next_probe && next_build) {
            if (++pair.overlap >= enough) {
                return;
            }
        } else if (next_probe ? spare_probe-- == 0 : spare_build-- == 0) {
            return;
        }
        if (next_probe) {
            if (++probe == probe_end) {
                return;
            }
            p = *probe;
        }
        if (next_build) {
            if (++build == build_end) {
                return;
            }
            b = __ldg(build);
        }
    }
}

// Layout a: a thread owns a probe set and verifies all of its candidates by merging. For tiny sets
// and short groups.
template <class Sink>
__device__ __forceinline__ void thread_per_probe(const Chunk &chunk) {
    Sink sink(chunk);
    const u64 threads = u64{gridDim.x} * blockDim.x;
    const u64 first = u64{blockIdx.x} * blockDim.x + warp_id() * WARP;
    // The lanes of a warp go from candidate to candidate in step, so that they append together.
    for (u64 base = first; base < chunk.group_count; base += threads) {
        // Lanes behind the last group hold it too, and no candidate.
        const u64 number = base + lane_id();
        const bool present = number < chunk.group_count;
        const ProbeGroup group(chunk, present ? number : chunk.group_count - 1);
        u32 next = present ? group.start : group.end;
        while (__any_sync(ALL_LANES, next < group.end)) {
            bool matched = false;
            Pair pair;
            if (next < group.end) {
                pair = Pair(chunk, group, next);
                if (pair.is_open(chunk.exact)) {
                    merge(pair, group.tokens, group.size, chunk.exact);
                }
                matched = pair.matches();
                next = matched && chunk.first_only ? group.end : next + 1;
            }
            // Together again, whatever their merges took.
            __syncwarp();
            sink.push(matched, group, pair);
        }
    }
    sink.finish();
}

// Layout b: a block owns a probe set, whose tokens lie in shared memory where they fit; its threads
// share out the candidates and merge one each. For small sets.
//
// Verifies the group's candidates; `probe` are its tokens, in shared or global memory.
template <class Sink>
__device__ __forceinline__ void merge_candidates(const Chunk &chunk, const ProbeGroup &group, const u32 *probe,
                                                 const Settled &settled, Sink &sink) {
    const u32 count = group.end - group.start;
    for (u64 base = warp_id() * WARP; base < count; base += blockDim.x) {
        if (settled.get()) {
            return;
        }
        const u64 number = base + lane_id();
        bool matched = false;
        Pair pair;
        if (number < count) {
            pair = Pair(chunk, group, group.start + static_cast<u32>(number));
            if (pair.is_open(chunk.exact)) {
                merge(pair, probe, group.size, chunk.exact);
            }
            matched = pair.matches();
        }
        // Together again, whatever their merges took.
        __syncwarp();
        sink.push(matched, group, pair);
        settled.add(matched);
    }
}

template <class Sink>
__device__ __forceinline__ void thread_per_pair(const Chunk &chunk) {
    DYNAMIC_SHARED(shared);
    __shared__ u32 flag;
    const Settled settled(chunk, &flag);
    Sink sink(chunk);
    for (u64 number = blockIdx.x; number < chunk.group_count; number += gridDim.x) {
        const ProbeGroup group(chunk, number);
        // All threads have left the former group.
        __syncthreads();
        if (threadIdx.x == 0) {
            flag = 0;
        }
        const bool fits = group.size <= chunk.shared_words;
        if (fits) {
#pragma unroll 1
            for (u32 i = threadIdx.x; i < group.size; i += blockDim.x) {
                shared[i] = __ldg(&group.tokens[i]);
            }
        }
        __syncthreads();
        if (fits) {
            merge_candidates(chunk, group, shared, settled, sink);
        } else {
            merge_candidates(chunk, group, group.tokens, settled, sink);
        }
    }
    sink.finish();
}

extern "C" __global__ void verify_thread_per_probe_pairs(Chunk chunk) { thread_per_probe<PairsSink>(chunk); }
extern "C" __global__ void verify_thread_per_probe_count(Chunk chunk) { thread_per_probe<CountSink>(chunk); }

extern "C" __global__ void verify_thread_per_pair_pairs(Chunk chunk) { thread_per_pair<PairsSink>(chunk); }
extern "C" __global__ void verify_thread_per_pair_count(Chunk chunk) { thread_per_pair<CountSink>(chunk); }
