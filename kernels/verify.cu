// Verification of candidate pairs: the overlap of a probe set and a build set, from where the
// filter left off, against the overlap the pair needs. Four layouts of threads, each in two forms:
//
//     a    a thread a probe set                    thread_per_group.cuh
//     b    a block a probe set, a thread a pair    thread_per_pair.cuh
//     c    a block a pair at a time                block_per_pair.cuh
//     dN   N lanes of a warp a pair at a time      lanes_per_pair.cuh
//
//     pairs    matches are appended, in no particular order
//     count    the pairs of rows behind them are added up
//
// Each kernel takes a chunk, which says where everything is. Grid and block are one-dimensional;
// any grid is right, and any block of a multiple of 32 threads, and any amount of dynamic shared
// memory (chunk.shared_words words): with less of it sets are read from global memory instead.
#include "block_per_pair.cuh"
#include "lanes_per_pair.cuh"
#include "thread_per_group.cuh"
#include "thread_per_pair.cuh"

static_assert(sizeof(WideCandidate) == 20 && sizeof(NarrowCandidate) == 8, "as in src/cuda/abi.rs");
static_assert(sizeof(Group) == 16 && sizeof(Match) == 12 && sizeof(Found) == 32, "as in src/cuda/abi.rs");
static_assert(sizeof(Chunk) == 112, "as in src/cuda/abi.rs");

extern "C" __global__ void verify_a_pairs(Chunk chunk) { thread_per_group<PairsSink>(chunk); }
extern "C" __global__ void verify_a_count(Chunk chunk) { thread_per_group<CountSink>(chunk); }

extern "C" __global__ void verify_b_pairs(Chunk chunk) { thread_per_pair<PairsSink>(chunk); }
extern "C" __global__ void verify_b_count(Chunk chunk) { thread_per_pair<CountSink>(chunk); }

extern "C" __global__ void verify_c_pairs(Chunk chunk) { block_per_pair<PairsSink>(chunk); }
extern "C" __global__ void verify_c_count(Chunk chunk) { block_per_pair<CountSink>(chunk); }

extern "C" __global__ void verify_d4_pairs(Chunk chunk) { lanes_per_pair<4, PairsSink>(chunk); }
extern "C" __global__ void verify_d4_count(Chunk chunk) { lanes_per_pair<4, CountSink>(chunk); }

extern "C" __global__ void verify_d8_pairs(Chunk chunk) { lanes_per_pair<8, PairsSink>(chunk); }
extern "C" __global__ void verify_d8_count(Chunk chunk) { lanes_per_pair<8, CountSink>(chunk); }

extern "C" __global__ void verify_d16_pairs(Chunk chunk) { lanes_per_pair<16, PairsSink>(chunk); }
extern "C" __global__ void verify_d16_count(Chunk chunk) { lanes_per_pair<16, CountSink>(chunk); }

extern "C" __global__ void verify_d32_pairs(Chunk chunk) { lanes_per_pair<32, PairsSink>(chunk); }
extern "C" __global__ void verify_d32_count(Chunk chunk) { lanes_per_pair<32, CountSink>(chunk); }
