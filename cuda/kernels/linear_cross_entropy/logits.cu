// Logits by tiles on CUDA cores. The definition is in core/workloads/src/ops/linear_cross_entropy.
//
// linear_cross_entropy_logits  stores the logits, in f32
// linear_cross_entropy_parts   stores the part of each row in a tile: no logit is stored

#include "lib/launch.cuh"
#include "lib/product_order.cuh"
#include "linear_cross_entropy/part.cuh"
#include "loss_sigmoid/tile.cuh"

// Calls `use(row, column, logits)` for each of this thread's four rows of four neighbouring columns in its tile. The row or columns
// may be outside. All threads call `use`.
template <typename Use>
__device__ __forceinline__ void each_row(const elem* __restrict__ x, const elem* __restrict__ w, const Use& use) {
    constexpr unsigned across = (CLASSES + tile_side - 1) / tile_side, down = (ROWS + tile_side - 1) / tile_side;
    const u64 index = flat_workgroup();
    if (index >= (u64)across * down) return;
    const uint2 tile = tile_at(index, across, down);
    const unsigned first_row = tile.y * tile_side, first_column = tile.x * tile_side;
    const auto left = [=](unsigned row, unsigned term) {
        return row < ROWS && term < DEPTH ? load(x[(u64)row * DEPTH + term]) : 0.0f;
    };
    const auto right = [=](unsigned term, unsigned column) {
        return column < CLASSES && term < DEPTH ? load(w[(u64)column * DEPTH + term]) : 0.0f;
    };
    float logits[4][4];
    tile_product(first_row, first_column, left, right, logits);
#pragma unroll
    for (unsigned i = 0; i < 4; i++) use(first_row + own_row() + i, first_column + own_column(), logits[i]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    linear_cross_entropy_logits(const elem* __restrict__ x, const elem* __restrict__ w, float* __restrict__ logits) {
    each_row(x, w, [=](unsigned row, unsigned column, const float(&of_row)[4]) {
        if (row >= ROWS) return;
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            if (column + k < CLASSES) logits[(u64)row * CLASSES + column + k] = of_row[k];
        }
    });
}

extern "C" __global__ void __launch_bounds__(THREADS)
    linear_cross_entropy_parts(const elem* __restrict__ x, const elem* __restrict__ w, const unsigned* __restrict__ targets,
                               float* __restrict__ parts, float* __restrict__ picked) {
    const Parts to{targets, parts, picked};
    each_row(x, w, [&](unsigned row, unsigned column, const float(&of_row)[4]) {
        to.store<4, 16>(
            row, column / tile_side, [&](unsigned k) { return of_row[k]; }, [&](unsigned k) { return column + k; });
    });
}
