// Intersections of large sets: of all pairs of a collection.
//
//     starts          where ranges of light tokens begin in each set    large_light.cuh
//     light           overlaps by light tokens, in shared memory        large_light.cuh
//     bits            the bits of heavy tokens                          large_bits.cuh
//     heavy           overlaps by heavy tokens, as products of bits     large_products.cuh
//     admit, decide   matches, by the overlaps                          large_decide.cuh
//
// Any grid is right; blocks are of the size that a kernel's name or bounds say.
#include "large_bits.cuh"
#include "large_decide.cuh"
#include "large_light.cuh"
#include "large_products.cuh"

extern "C" __global__ void large_starts(LargeWork work) {
    find_starts(work.rows, work.row_count, work.cuts, work.range_count, work.row_starts);
    if (work.column_starts != work.row_starts) {
        find_starts(work.columns, work.column_count, work.cuts, work.range_count, work.column_starts);
    }
}

extern "C" __global__ void __launch_bounds__(1024, 1) large_light_192(LargeWork work) { count_light<192, 1024>(work); }
extern "C" __global__ void __launch_bounds__(256) large_light_64(LargeWork work) { count_light<64, 256>(work); }

extern "C" __global__ void __launch_bounds__(256) large_bits(LargeWork work) {
    fill_bits(work, work.rows, work.row_count, work.row_bits);
    if (work.column_bits != work.row_bits) {
        fill_bits(work, work.columns, work.column_count, work.column_bits);
    }
}

extern "C" __global__ void __launch_bounds__(128, 2) large_heavy(LargeWork work) { count_heavy(work); }

extern "C" __global__ void large_admit(LargeWork work) { admit_rows(work); }
extern "C" __global__ void __launch_bounds__(128) large_decide_pairs(LargeWork work) {
    decide_overlaps<GivenPairs<LargeWork>>(work);
}
extern "C" __global__ void __launch_bounds__(128) large_decide_count(LargeWork work) {
    decide_overlaps<CountedPairs<LargeWork>>(work);
}
