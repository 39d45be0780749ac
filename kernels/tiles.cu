// Signature tiles: signatures of sets, made from resident tokens, are tested against each other in
// tiles of rows and columns. What passes is decided by both signatures and by tokens.
//
//     sign, unite     signatures; columns as unions of neighbours    signatures.cuh
//     count           tiles by population counts, on any device      tile_counts.cuh
//     product         tiles by one-bit matrix products of warps      tile_products.cuh
//     warpgroup       the same of warpgroups                         tile_warpgroups.cuh
//     decide_hits     the pairs behind hits                          decide.cuh
//     decide_units    all pairs of units with too many hits          decide.cuh
//
// Tile kernels have a form for each width of signatures, in bits, and blocks of the size that their
// shape says; any grid is right. `pairs` appends matches, `count` adds up the pairs of rows behind
// them.
#include "decide.cuh"
#include "tile_counts.cuh"
#include "tile_products.cuh"
#include "tile_warpgroups.cuh"

extern "C" __global__ void tiles_sign(Signing signing) { sign(signing); }

extern "C" __global__ void tiles_unite(Uniting uniting) {
    if (uniting.members > 1) {
        unite(uniting);
    }
    range_of_stages(uniting);
}

extern "C" __global__ void __launch_bounds__(64) tiles_count_256(TileWork work) { tile_by_counts<8>(work); }
extern "C" __global__ void __launch_bounds__(64) tiles_count_512(TileWork work) { tile_by_counts<16>(work); }
extern "C" __global__ void __launch_bounds__(64) tiles_count_1024(TileWork work) { tile_by_counts<32>(work); }

#ifdef HAS_MATRIX_PRODUCTS
extern "C" __global__ void __launch_bounds__(128, 3) tiles_product_256(TileWork work) { tile_by_products<1>(work); }
extern "C" __global__ void __launch_bounds__(128, 3) tiles_product_512(TileWork work) { tile_by_products<2>(work); }
extern "C" __global__ void __launch_bounds__(128, 3) tiles_product_1024(TileWork work) { tile_by_products<4>(work); }
#endif

#ifdef HAS_WARPGROUP_PRODUCTS
extern "C" __global__ void __launch_bounds__(384, 1) tiles_warpgroup_256(TileWork work) { tile_by_warpgroups<1>(work); }
extern "C" __global__ void __launch_bounds__(384, 1) tiles_warpgroup_512(TileWork work) { tile_by_warpgroups<2>(work); }
extern "C" __global__ void __launch_bounds__(384, 1) tiles_warpgroup_1024(TileWork work) { tile_by_warpgroups<4>(work); }
#endif

extern "C" __global__ void __launch_bounds__(128) tiles_decide_hits_pairs(TileWork work) {
    decide_hits<TilePairs>(work);
}
extern "C" __global__ void __launch_bounds__(128) tiles_decide_hits_count(TileWork work) {
    decide_hits<TileCount>(work);
}
extern "C" __global__ void __launch_bounds__(128) tiles_decide_units_pairs(TileWork work) {
    decide_units<TilePairs>(work);
}
extern "C" __global__ void __launch_bounds__(128) tiles_decide_units_count(TileWork work) {
    decide_units<TileCount>(work);
}
