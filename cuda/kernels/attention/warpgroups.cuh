#pragma once
// Pieces of the kernels by warpgroups, forward and backward.

#include "attention/common.cuh" //= FORM: #include "attention/scores.cuh"
#include "lib/exp2.cuh"
#include "lib/launch.cuh"
#include "lib/mma.cuh"
#include "lib/named.cuh"
#include "lib/tma.cuh"
#include "lib/wgmma.cuh"

// Tensors of queries, keys, values and results have the axes column, row, head and item. Heads of keys and values begin at
// FIRST_KEYS and FIRST_VALUES, where they share rows with others.
constexpr unsigned ITEM_KEY_HEADS = ITEM_HEADS / GROUP;

// Loads a box of head `head` of queries or of their gradients, counted through all items.
__device__ __forceinline__ void load_queries(elem* to, const CUtensorMap& map, mbarrier* full, unsigned column, unsigned row,
                                             unsigned head) {
    tma_load(to, map, full, column, row, head % ITEM_HEADS, head / ITEM_HEADS);
}

// Loads a box of head `head` of keys or values.
template <unsigned first>
__device__ __forceinline__ void load_keys(elem* to, const CUtensorMap& map, mbarrier* full, unsigned column, unsigned row,
                                          unsigned head) {
    tma_load(to, map, full, column, row, first + head % ITEM_KEY_HEADS, head / ITEM_KEY_HEADS);
}
