// The kernels by name: the project's own, compiled from their sources, and those that test the
// emulator itself.
#include "device.h"

#if __has_include("../verify.cu")
#include "../indexed.cu"
#include "../large.cu"
#include "../nearest.cu"
#include "../published.cu"
#include "../published_indexed.cu"
#include "../published_intersection.cu"
#include "../published_points.cu"
#include "../texts.cu"
#include "../tiles.cu"
#include "../vectors.cu"
#include "../verify.cu"
#define HAS_VERIFY 1
#endif
#include "self_test.cu"

namespace emulator {
namespace {

template <auto Function>
struct Entry;

template <typename Argument, void (*Function)(Argument)>
struct Entry<Function> {
    static constexpr size_t BYTES = sizeof(Argument);
    static void run(const void *argument) { Function(*static_cast<const Argument *>(argument)); }
};

#define KERNEL(name) {#name, Entry<name>::BYTES, Entry<name>::run}
#define FORMS(name) KERNEL(name##_pairs), KERNEL(name##_count)
#define PASSES(steps) KERNEL(nearest_bests_##steps), KERNEL(nearest_pairs_##steps)
#define INTEGER_PASSES(steps) KERNEL(nearest_integer_bests_##steps), KERNEL(nearest_integer_pairs_##steps)
#define WIDTHS(name) KERNEL(name##_256), KERNEL(name##_512), KERNEL(name##_1024)

constexpr Kernel KERNELS[] = {
#ifdef HAS_VERIFY
    FORMS(verify_thread_per_probe), FORMS(verify_thread_per_pair),
    FORMS(verify_lanes_per_pair),   FORMS(verify_block_per_pair),
    KERNEL(tiles_sign),             KERNEL(tiles_unite),
    WIDTHS(tiles_count),            WIDTHS(tiles_product),
    WIDTHS(tiles_warpgroup),
    FORMS(tiles_decide_hits),       FORMS(tiles_decide_units),
    KERNEL(index_fill),             KERNEL(index_count),
    KERNEL(index_sum),              KERNEL(index_move),
    KERNEL(index_finish),           KERNEL(index_warps),
    KERNEL(index_blocks),           KERNEL(index_threads),
    KERNEL(index_atomics),          KERNEL(index_gather),
    KERNEL(index_gather_counted),   FORMS(index_decide_counted),
    FORMS(index_decide),
    KERNEL(texts_sign),             FORMS(texts),
    KERNEL(vectors_measure),        KERNEL(vectors_prepare),
    KERNEL(vectors_stages),         KERNEL(vectors_plain),
    KERNEL(vectors_mma),            KERNEL(vectors_probe),
    KERNEL(vectors_boxed_1),        KERNEL(vectors_boxed_2),
    KERNEL(vectors_probe_warpgroup), KERNEL(vectors_published_loop),
    KERNEL(vectors_published_directory),
    KERNEL(vectors_rows_1),         KERNEL(vectors_rows_2),
    KERNEL(vectors_rows_3),         KERNEL(vectors_rows_4),
    KERNEL(vectors_rows_5),         KERNEL(vectors_rows_6),
    KERNEL(vectors_rows_7),         KERNEL(vectors_rows_8),
    KERNEL(vectors_rows_9),         KERNEL(vectors_shared),
    KERNEL(vectors_range),          KERNEL(vectors_prepare_integers),
    KERNEL(vectors_integers_1),     KERNEL(vectors_integers_2),
    KERNEL(vectors_integers_3),     KERNEL(vectors_integers_4),
    KERNEL(vectors_integers_5),     KERNEL(vectors_integers_6),
    KERNEL(vectors_integers_7),     KERNEL(vectors_integers_8),
    KERNEL(vectors_integers_9),     KERNEL(vectors_mma_integers),
    FORMS(vectors_decide_hits),     FORMS(vectors_decide_units),
    KERNEL(nearest_shuffle),        KERNEL(nearest_prepare), KERNEL(nearest_prepare_integers),
    KERNEL(nearest_thresholds),     KERNEL(nearest_bins),
    KERNEL(nearest_sum),            KERNEL(nearest_sort),
    KERNEL(nearest_count),          KERNEL(nearest_fill),
    KERNEL(nearest_choose),
    PASSES(1), PASSES(2), PASSES(3), PASSES(4), PASSES(5), PASSES(6), PASSES(7), PASSES(8), PASSES(9),
    PASSES(shared),
    INTEGER_PASSES(1), INTEGER_PASSES(2), INTEGER_PASSES(3), INTEGER_PASSES(4), INTEGER_PASSES(5),
    INTEGER_PASSES(6), INTEGER_PASSES(7), INTEGER_PASSES(8), INTEGER_PASSES(9),
    KERNEL(large_starts),           KERNEL(large_bits),
    KERNEL(large_light_192),        KERNEL(large_light_64),
    KERNEL(large_heavy),            KERNEL(large_admit),
    FORMS(large_decide),
    KERNEL(published_merge_u32),    KERNEL(published_merge_u32_short),
    KERNEL(published_search_u32),
    KERNEL(published_ip),           KERNEL(published_obs),
    KERNEL(published_ip_obs),       KERNEL(published_hi),
    KERNEL(published_ip_hi),
    KERNEL(published_bi_all),       KERNEL(published_bi_one),
    KERNEL(published_bi_naive),     KERNEL(published_bi_dynamic),
    KERNEL(published_sf_gssjoin_count),  KERNEL(published_sf_gssjoin_pieces),
    KERNEL(published_sf_gssjoin_sums),   KERNEL(published_sf_gssjoin_tokens),
    KERNEL(published_sf_gssjoin_fill),   KERNEL(published_sf_gssjoin),
#endif
    KERNEL(self_test_indices),
    KERNEL(self_test_shuffles),
    KERNEL(self_test_votes),
    KERNEL(self_test_block_sum),
    KERNEL(self_test_missing_barrier),
    KERNEL(self_test_atomics),
    KERNEL(self_test_barrier_not_reached),
    KERNEL(self_test_shuffle_not_reached),
    KERNEL(self_test_null),
    KERNEL(self_test_write_behind),
    KERNEL(self_test_read_far_behind),
    KERNEL(self_test_shared_behind),
    KERNEL(self_test_fill),
    KERNEL(self_test_endless_stack),
};

}  // namespace

const Kernel *find_kernel(const char *name) {
    for (const Kernel &kernel : KERNELS) {
        if (strcmp(kernel.name, name) == 0) return &kernel;
    }
    return nullptr;
}

}  // namespace emulator
