// Joins of vectors by distance, inner product and cosine: products of halves, which prove most pairs to
// match or not to (vector_bounds.cuh), and f64 for those between.
//
//     measure, prepare, stages   vectors as the filter reads them          vector_prepare.cuh
//     plain                      the filter by products of threads         vector_plain.cuh
//     decide_hits                the pairs that the filter leaves          vector_decide.cuh
//     decide_units               all pairs of units                        vector_decide.cuh
//
// Filters have blocks of the size that their shape says; any grid is right. `pairs` appends matches,
// `count` adds up the pairs of rows behind them.
#include "vector_decide.cuh"
#include "vector_plain.cuh"
#include "vector_prepare.cuh"

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

extern "C" __global__ void __launch_bounds__(128) vectors_plain(VectorWork work) { filter_plainly(work); }

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
