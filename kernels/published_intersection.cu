// Techniques of the literature for intersections of large sets, for measurements (Bellas, Gounaris: "A
// methodology for large set intersection on GPUs", DOLAP 2021), written from their descriptions, and the
// project's own kernels for one pair. No join runs them. Those of the literature give the overlaps of
// pairs of a collection; a pair alone is a collection of two, cut into parts for the blocks of a grid.
//
//     merge, search          the project's own               published_own_merge.cuh, published_own_search.cuh
//     ip, obs, ip_obs    paths, searches, and both           published_paths.cuh, published_searches.cuh
//     hi, ip_hi          hash tables, and paths with them    published_hashes.cuh
//     bi_*               bitmaps                             published_bitmaps.cuh
//     sf_gssjoin_*       a full inverted index               published_postings.cuh
#include "published_bitmaps.cuh"
#include "published_hashes.cuh"
#include "published_own_merge.cuh"
#include "published_own_search.cuh"
#include "published_paths.cuh"
#include "published_postings.cuh"
#include "published_searches.cuh"

extern "C" __global__ void __launch_bounds__(256) published_merge_u32(RunPair pair) {
    merge_runs<u32, 256, 32>(pair);
}
// For runs so short that larger tiles would leave multiprocessors without one.
extern "C" __global__ void __launch_bounds__(128) published_merge_u32_short(RunPair pair) {
    merge_runs<u32, 128, 16>(pair);
}
extern "C" __global__ void __launch_bounds__(256) published_search_u32(RunPair pair) {
    search_runs<u32, 256, 4, 1024>(pair);
}

extern "C" __global__ void published_ip(PairsWork work) { by_paths(work); }
extern "C" __global__ void published_obs(PairsWork work) { by_searches(work); }
extern "C" __global__ void published_ip_obs(PairsWork work) { by_paths_and_searches(work); }
extern "C" __global__ void published_hi(PairsWork work) { by_hashes(work); }
extern "C" __global__ void published_ip_hi(PairsWork work) { by_paths_and_hashes(work); }
extern "C" __global__ void published_bi_all(PairsWork work) { set_bits(work, true); }
extern "C" __global__ void published_bi_one(PairsWork work) { set_bits(work, false); }
extern "C" __global__ void published_bi_naive(PairsWork work) { by_two_bitmaps(work); }
extern "C" __global__ void published_bi_dynamic(PairsWork work) { by_one_bitmap(work); }
extern "C" __global__ void published_sf_gssjoin_count(PairsWork work) { count_postings(work); }
extern "C" __global__ void published_sf_gssjoin_pieces(PairsWork work) { sum_pieces(work); }
extern "C" __global__ void published_sf_gssjoin_sums(PairsWork work) { sum_sums(work); }
extern "C" __global__ void published_sf_gssjoin_tokens(PairsWork work) { sum_tokens(work); }
extern "C" __global__ void published_sf_gssjoin_fill(PairsWork work) { fill_postings(work); }
extern "C" __global__ void published_sf_gssjoin(PairsWork work) { by_postings(work); }
