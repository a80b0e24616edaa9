// Gradient of one set of embeddings from the slopes and the other set, by tiles. The definition is in
// core/workloads/src/ops/loss_sigmoid.

#include "lib/launch.cuh"
#include "loss_sigmoid/tile.cuh"

extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    loss_sigmoid_gradient(const float* __restrict__ slopes, const float* __restrict__ temperature,
                          const elem* __restrict__ other, elem* __restrict__ gradient) {
    const unsigned tile = (unsigned)flat_workgroup();
    if (tile >= TILES) return;
    const unsigned first_row = tile / ACROSS * tile_side, first_column = tile % ACROSS * tile_side;
    const auto left = [=](unsigned row, unsigned term) {
        return row < N && term < N ? slopes[BY_COLUMNS ? (u64)term * N + row : (u64)row * N + term] : 0.0f;
    };
    const auto right = [=](unsigned term, unsigned column) {
        return term < N && column < D ? load(other[(u64)term * D + column]) : 0.0f;
    };
    float sums[4][4];
    tile_product(first_row, first_column, left, right, sums);
#pragma unroll
    for (unsigned i = 0; i < 16; i++) {
        const unsigned row = first_row + own_row() + i / 4, column = first_column + own_column() + i % 4;
        if (row < N && column < D) gradient[(u64)row * D + column] = to_elem(temperature[0] * sums[i / 4][i % 4]);
    }
}
