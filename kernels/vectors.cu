// Joins of vectors by distance, inner product and cosine: products of halves, which prove most pairs to
// match or not to (vector_bounds.cuh), and f64 for those between.
//
//     measure, prepare, stages   vectors as the filter reads them          vector_prepare.cuh
//     plain                      the filter by products of threads         vector_plain.cuh
//     mma                        the same of warps, 8.0                    vector_products.cuh
//     boxed_N                    the same, of boxes in reach, 8.0          vector_boxed.cuh
//     probe                      how a device rounds those                 vector_probe.cuh
//     rows_N, shared             the same of warpgroups, 9.0               vector_warpgroups.cuh
//     range, prepare_integers    vectors of integers                       vector_integers.cuh
//     mma_integers               their filter by products of warps, 8.0    vector_integer_warps.cuh
//     integers_N                 the same of warpgroups, 9.0               vector_integer_groups.cuh
//     decide_hits                the pairs that the filter leaves          vector_decide.cuh
//     decide_units               all pairs of units                        vector_decide.cuh
//
// Filters have blocks of the size that their shape says; any grid is right. `pairs` appends matches,
// `count` adds up the pairs of rows behind them.
#include "vector_boxed.cuh"
#include "vector_decide.cuh"
#include "vector_integer_groups.cuh"
#include "vector_integer_warps.cuh"
#include "vector_plain.cuh"
#include "vector_prepare.cuh"
#include "vector_probe.cuh"
#include "vector_products.cuh"
#include "vector_warpgroups.cuh"

extern "C" __global__ void __launch_bounds__(256) vectors_measure(Preparing preparing) {
    if (preparing.wide) {
        measure<double>(preparing);
    } else {
        measure<float>(preparing);
    }
}

extern "C" __global__ void __launch_bounds__(256) vectors_prepare(Preparing preparing) {
    if (preparing.wide) {
        prepare<double>(preparing);
    } else {
        prepare<float>(preparing);
    }
}

extern "C" __global__ void __launch_bounds__(256) vectors_stages(Preparing preparing) { sure_of_stages(preparing); }

extern "C" __global__ void __launch_bounds__(256) vectors_range(Ranging ranging) {
    if (ranging.wide) {
        find_range<double>(ranging);
    } else {
        find_range<float>(ranging);
    }
}

extern "C" __global__ void __launch_bounds__(256) vectors_prepare_integers(Preparing preparing) {
    if (preparing.wide) {
        prepare_integers<double>(preparing);
    } else {
        prepare_integers<float>(preparing);
    }
}

extern "C" __global__ void __launch_bounds__(128) vectors_plain(VectorWork work) { filter_plainly(work); }
#ifdef HAS_MATRIX_PRODUCTS
extern "C" __global__ void __launch_bounds__(256, 2) vectors_mma(VectorWork work) { filter_by_products<HalfNumbers>(work); }
extern "C" __global__ void __launch_bounds__(256, 2) vectors_mma_integers(VectorWork work) {
    filter_by_products<IntegerNumbers>(work);
}
extern "C" __global__ void __launch_bounds__(256, 4) vectors_boxed_1(VectorWork work) { filter_boxed_rows<1>(work); }
extern "C" __global__ void __launch_bounds__(256, 3) vectors_boxed_2(VectorWork work) { filter_boxed_rows<2>(work); }
extern "C" __global__ void __launch_bounds__(32) vectors_probe(Probe probing) { probe_warp(probing); }
#endif

#ifdef HAS_WARPGROUP_PRODUCTS
extern "C" __global__ void __launch_bounds__(128) vectors_probe_warpgroup(Probe probing) { probe_warpgroup(probing); }
extern "C" __global__ void __launch_bounds__(384, 1) vectors_rows_1(VectorWork work) { filter_kept_rows<1>(work); }
extern "C" __global__ void __launch_bounds__(384, 1) vectors_rows_2(VectorWork work) { filter_kept_rows<2>(work); }
extern "C" __global__ void __launch_bounds__(384, 1) vectors_rows_3(VectorWork work) { filter_kept_rows<3>(work); }
extern "C" __global__ void __launch_bounds__(384, 1) vectors_rows_4(VectorWork work) { filter_kept_rows<4>(work); }
extern "C" __global__ void __launch_bounds__(384, 1) vectors_rows_5(VectorWork work) { filter_kept_rows<5>(work); }
extern "C" __global__ void __launch_bounds__(384, 1) vectors_rows_6(VectorWork work) { filter_kept_rows<6>(work); }
extern "C" __global__ void __launch_bounds__(384, 1) vectors_rows_7(VectorWork work) { filter_kept_rows<7>(work); }
extern "C" __global__ void __launch_bounds__(384, 1) vectors_rows_8(VectorWork work) { filter_kept_rows<8>(work); }
extern "C" __global__ void __launch_bounds__(384, 1) vectors_rows_9(VectorWork work) { filter_kept_rows<9>(work); }
extern "C" __global__ void __launch_bounds__(384, 1) vectors_shared(VectorWork work) { filter_shared_rows(work); }
extern "C" __global__ void __launch_bounds__(384, 1) vectors_integers_1(VectorWork work) {
    filter_kept_integers<1>(work);
}
extern "C" __global__ void __launch_bounds__(384, 1) vectors_integers_2(VectorWork work) {
    filter_kept_integers<2>(work);
}
extern "C" __global__ void __launch_bounds__(384, 1) vectors_integers_3(VectorWork work) {
    filter_kept_integers<3>(work);
}
extern "C" __global__ void __launch_bounds__(384, 1) vectors_integers_4(VectorWork work) {
    filter_kept_integers<4>(work);
}
extern "C" __global__ void __launch_bounds__(384, 1) vectors_integers_5(VectorWork work) {
    filter_kept_integers<5>(work);
}
extern "C" __global__ void __launch_bounds__(384, 1) vectors_integers_6(VectorWork work) {
    filter_kept_integers<6>(work);
}
extern "C" __global__ void __launch_bounds__(384, 1) vectors_integers_7(VectorWork work) {
    filter_kept_integers<7>(work);
}
extern "C" __global__ void __launch_bounds__(384, 1) vectors_integers_8(VectorWork work) {
    filter_kept_integers<8>(work);
}
extern "C" __global__ void __launch_bounds__(384, 1) vectors_integers_9(VectorWork work) {
    filter_kept_integers<9>(work);
}
#endif

extern "C" __global__ void __launch_bounds__(128) vectors_decide_hits_pairs(VectorWork work) {
    decide_vector_hits<VectorPairs>(work);
}
extern "C" __global__ void __launch_bounds__(128) vectors_decide_hits_count(VectorWork work) {
    decide_vector_hits<VectorCount>(work);
}
extern "C" __global__ void __launch_bounds__(128) vectors_decide_units_pairs(VectorWork work) {
    decide_vector_units<VectorPairs>(work);
}
extern "C" __global__ void __launch_bounds__(128) vectors_decide_units_count(VectorWork work) {
    decide_vector_units<VectorCount>(work);
}
