// Joins of points of the literature, for comparison (Böhm, Noll, Plant, Zherdin: Density-based clustering
// and similarity join on graphics processors, BTW 2009): filters in place of those of vectors.cu, which
// prepares the vectors and decides the pairs that the loop leaves. `auto` takes neither.
//
//     loop         the nested loop, of distances     published_points_loop.cuh
//     directory    the index, of distances           published_points_directory.cuh
//
// Blocks are of 128 threads; any grid is right.
#include "published_points_directory.cuh"
#include "published_points_loop.cuh"

extern "C" __global__ void __launch_bounds__(128) vectors_published_loop(VectorWork work) {
    if (work.rows.wide || work.columns.wide) {
        filter_by_loop<double>(work);
    } else {
        filter_by_loop<float>(work);
    }
}
extern "C" __global__ void __launch_bounds__(128) vectors_published_directory(VectorWork work) {
    if (work.rows.wide || work.columns.wide) {
        count_by_directory<double>(work);
    } else {
        count_by_directory<float>(work);
    }
}
