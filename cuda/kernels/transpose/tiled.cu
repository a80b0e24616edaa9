// Transpose by tiles: a block reads rows of a tile into shared memory and writes its columns as rows, so that neighbouring
// threads access neighbouring elements on both sides. A padding element per row avoids bank conflicts. The definition is in
// core/workloads/src/ops/transpose.rs.

#include "lib/launch.cuh"

constexpr unsigned DOWN = THREADS / TILE;

extern "C" __global__ void __launch_bounds__(THREADS)
    transpose_tiled(const elem* __restrict__ x, elem* __restrict__ out) {
    __shared__ elem transposed[TILE][TILE + 1];
    constexpr unsigned across = (COLUMNS + TILE - 1) / TILE, down = (ROWS + TILE - 1) / TILE;
    const u64 tile = flat_workgroup(), matrix = tile / ((u64)across * down);
    if (matrix >= MATRICES) return;
    const unsigned first_row = (unsigned)(tile / across % down) * TILE;
    const unsigned first_column = (unsigned)(tile % across) * TILE;
    const u64 base = matrix * ROWS * COLUMNS;
    const unsigned along = threadIdx.x % TILE;
#pragma unroll
    for (unsigned i = threadIdx.x / TILE; i < TILE; i += DOWN) {
        const unsigned row = first_row + i, column = first_column + along;
        if (row < ROWS && column < COLUMNS) transposed[i][along] = x[base + (u64)row * COLUMNS + column];
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = threadIdx.x / TILE; i < TILE; i += DOWN) {
        const unsigned row = first_row + along, column = first_column + i;
        if (row < ROWS && column < COLUMNS) out[base + (u64)column * ROWS + row] = transposed[along][i];
    }
}
