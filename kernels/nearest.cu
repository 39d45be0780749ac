// The nearest vectors of vectors by distance and cosine: products of halves bound the distances of pairs, from a
// sample of columns follow thresholds of rows, and of the pairs that pass these f64 decides the few that may be
// neighbours (nearest_bounds.cuh).
//
//     shuffle, prepare            vectors as the products read them               nearest_bounds.cuh
//     prepare_integers            the same as integers of 8 bits
//     bests_N, bests_shared       the best of groups of columns                   nearest_tiles.cuh
//     integer_bests_N
//     thresholds                  of rows, from those                             nearest_rows.cuh
//     bins, sum, sort             rows by rising threshold, where they are columns
//     pairs_N, pairs_shared       the pairs that pass                             nearest_tiles.cuh
//     integer_pairs_N
//     count, sum, fill            buckets of rows                                 nearest_rows.cuh
//     choose                      the neighbours                                  nearest_rows.cuh
//
// The kernels of tiles have blocks of the size that their shape says; any grid is right.
#include "nearest_rows.cuh"
#include "nearest_tiles.cuh"

extern "C" __global__ void __launch_bounds__(256) nearest_shuffle(NearestShuffle shuffle) {
    const u32 step = gridDim.x * blockDim.x;
    for (u32 position = blockIdx.x * blockDim.x + threadIdx.x; position < shuffle.count; position += step) {
        shuffle.order[position] = shuffle.first + static_cast<u32>(u64{position} * shuffle.stride % shuffle.count);
    }
}

extern "C" __global__ void __launch_bounds__(256) nearest_prepare(NearestPreparing preparing) {
    if (preparing.wide) {
        prepare_nearest<double>(preparing);
    } else {
        prepare_nearest<float>(preparing);
    }
}

extern "C" __global__ void __launch_bounds__(256) nearest_prepare_integers(NearestPreparing preparing) {
    if (preparing.wide) {
        prepare_nearest_integers<double>(preparing);
    } else {
        prepare_nearest_integers<float>(preparing);
    }
}

extern "C" __global__ void __launch_bounds__(128) nearest_thresholds(NearestWork work) { find_thresholds(work); }

extern "C" __global__ void __launch_bounds__(256) nearest_bins(NearestWork work) { count_bins(work); }

extern "C" __global__ void __launch_bounds__(1024) nearest_sum(NearestSum sum) { sum_counts(sum); }

extern "C" __global__ void __launch_bounds__(256) nearest_sort(NearestWork work) { sort_rows(work); }

extern "C" __global__ void __launch_bounds__(256) nearest_count(NearestWork work) { count_pairs(work); }

extern "C" __global__ void __launch_bounds__(256) nearest_fill(NearestWork work) { fill_buckets(work); }

extern "C" __global__ void __launch_bounds__(128) nearest_choose(NearestWork work) { choose_neighbours(work); }

#ifdef HAS_WARPGROUP_PRODUCTS
#define OF_STEPS(steps)                                                                                     \
    extern "C" __global__ void __launch_bounds__(384, 1) nearest_bests_##steps(NearestWork work) {          \
        multiply_kept_rows<steps, GroupBests>(work);                                                        \
    }                                                                                                       \
    extern "C" __global__ void __launch_bounds__(384, 1) nearest_pairs_##steps(NearestWork work) {          \
        multiply_kept_rows<steps, PassingPairs>(work);                                                      \
    }                                                                                                       \
    extern "C" __global__ void __launch_bounds__(384, 1) nearest_integer_bests_##steps(NearestWork work) {  \
        multiply_kept_integers<steps, GroupBests>(work);                                                    \
    }                                                                                                       \
    extern "C" __global__ void __launch_bounds__(384, 1) nearest_integer_pairs_##steps(NearestWork work) {  \
        multiply_kept_integers<steps, PassingPairs>(work);                                                  \
    }

OF_STEPS(1)
OF_STEPS(2)
OF_STEPS(3)
OF_STEPS(4)
OF_STEPS(5)
OF_STEPS(6)
OF_STEPS(7)
OF_STEPS(8)
OF_STEPS(9)
#undef OF_STEPS

extern "C" __global__ void __launch_bounds__(384, 1) nearest_bests_shared(NearestWork work) {
    multiply_shared_rows<GroupBests<float>>(work);
}
extern "C" __global__ void __launch_bounds__(384, 1) nearest_pairs_shared(NearestWork work) {
    multiply_shared_rows<PassingPairs<float>>(work);
}
#endif
