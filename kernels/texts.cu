// Joins of texts: signatures of texts are tested against each other in tiles of rows and columns, and pairs
// that pass are compared by Levenshtein's distance.
//
//     sign            signatures, and boxes around those of stages   text_sign.cuh
//     pairs, count    tiles                                          text_tiles.cuh
//     distance        of two texts, by one thread                    text_band.cuh
//
// `pairs` gives matches, `count` adds up the pairs of rows behind them and gives the pairs that the host
// decides. Any grid is right.
#include "text_sign.cuh"
#include "text_tiles.cuh"

extern "C" __global__ void __launch_bounds__(64) texts_sign(TextSigning signing) { sign_texts(signing); }

extern "C" __global__ void __launch_bounds__(128) texts_pairs(TextWork work) { test_texts<false>(work); }

extern "C" __global__ void __launch_bounds__(128) texts_count(TextWork work) { test_texts<true>(work); }
