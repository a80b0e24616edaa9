#pragma once
// Rows of heads in pieces of eight elements. ITEM_STRIDE, HEAD_STRIDE and ROW_STRIDE are in pieces.

#include "lib/launch.cuh"

// First piece of row `row` of head `head`, counted through all items.
__device__ __forceinline__ u64 first_piece(unsigned head, unsigned row) {
    return (u64)(head / ITEM_HEADS) * ITEM_STRIDE + (u64)(head % ITEM_HEADS) * HEAD_STRIDE + (u64)row * ROW_STRIDE;
}
