// Filters by inverted index, wholly on the device: the prefixes of the build sets are indexed from
// resident tokens, the prefixes of the rows are looked up, and candidates are decided by their tokens.
//
//     fill, count, sum, move, finish    the index, sorted digit by digit    index_build.cuh
//     warps                             a warp a row                        index_warps.cuh
//     decide                            candidates                          index_decide.cuh
//
// Any grid is right, and any block of a multiple of 32 threads but for `move`, whose blocks have
// SORT_THREADS.
#include "index_decide.cuh"
#include "index_warps.cuh"

extern "C" __global__ void index_fill(Indexing part) { fill_postings(part); }
extern "C" __global__ void index_count(Indexing part) { count_digits(part); }
extern "C" __global__ void index_sum(Indexing part) { sum_digits(part); }
extern "C" __global__ void __launch_bounds__(SORT_THREADS) index_move(Indexing part) { move_by_digit(part); }
extern "C" __global__ void index_finish(Indexing part) { finish_index(part); }

extern "C" __global__ void index_warps(IndexWork work) { probe_by_warps(work); }

extern "C" __global__ void index_decide_pairs(IndexWork work) { decide_candidates<GivenPairs<IndexWork>>(work); }
extern "C" __global__ void index_decide_count(IndexWork work) { decide_candidates<CountedPairs<IndexWork>>(work); }
