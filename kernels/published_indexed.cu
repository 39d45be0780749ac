// Filters by inverted index of the literature, for comparison: lookups in place of those of indexed.cu,
// which makes the index and decides the candidates that are to be compared. `auto` takes none.
//
//     blocks                      Bwjoin, a block a row               published_index_blocks.cuh
//     threads, atomics, gather    fgSSJoin, sf-gSSJoin, by a matrix   published_index_counts.cuh
//     decide_counted              candidates with their overlaps      published_index_counts.cuh
//
// Any grid is right, and any block of a multiple of 32 threads, up to 256 for `blocks`.
#include "published_index_blocks.cuh"
#include "published_index_counts.cuh"

extern "C" __global__ void __launch_bounds__(256) index_blocks(IndexWork work) { probe_by_blocks(work); }
extern "C" __global__ void index_threads(IndexWork work) { count_by_threads(work); }
extern "C" __global__ void index_atomics(IndexWork work) { count_by_warps(work); }
extern "C" __global__ void index_gather(IndexWork work) { gather_cells<false>(work); }
extern "C" __global__ void index_gather_counted(IndexWork work) { gather_cells<true>(work); }

extern "C" __global__ void index_decide_counted_pairs(IndexWork work) { decide_counted<GivenPairs<IndexWork>>(work); }
extern "C" __global__ void index_decide_counted_count(IndexWork work) {
    decide_counted<CountedPairs<IndexWork>>(work);
}
