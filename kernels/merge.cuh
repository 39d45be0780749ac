// Intersection by one thread.
#pragma once

#include "pair.cuh"

// Merges the tokens left of an open pair; `probe` are the probe set's `size` tokens, in shared or
// global memory. Stops when the required overlap is out of reach or, unless `exact`, reached.
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
