// Verification of candidate pairs: the overlap of a probe set and a build set, from where the
// filter left off, against the overlap the pair needs. Two layouts of threads, each in two forms:
//
//     lanes_per_pair    four lanes of a warp a pair at a time    lanes_per_pair.cuh
//     block_per_pair    a block a pair at a time                 block_per_pair.cuh
//
//     pairs    matches are appended, in no particular order
//     count    the pairs of rows behind them are added up
//
// Each kernel takes a chunk, which says where everything is. Grid and block are one-dimensional;
// any grid is right, and any block of a multiple of 32 threads, and any amount of dynamic shared
// memory (chunk.shared_words words): with less of it sets are read from global memory instead.
// published.cu has the layouts of the literature, which measurements compare with.
#include "block_per_pair.cuh"
#include "lanes_per_pair.cuh"

extern "C" __global__ void verify_lanes_per_pair_pairs(Chunk chunk) { lanes_per_pair<PairsSink>(chunk); }
extern "C" __global__ void verify_lanes_per_pair_count(Chunk chunk) { lanes_per_pair<CountSink>(chunk); }

extern "C" __global__ void verify_block_per_pair_pairs(Chunk chunk) { block_per_pair<PairsSink>(chunk); }
extern "C" __global__ void verify_block_per_pair_count(Chunk chunk) { block_per_pair<CountSink>(chunk); }
