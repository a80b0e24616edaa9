// A product of attention's backward pass, in 16 x 16 tiles. The definition is in core/src/suite/workloads/attention.rs.

#include "lib/launch.cuh"

// gradient[ROWS x D] = left . right with `left` [ROWS x INNER], or stored as [INNER x ROWS] when TRANSPOSED.
extern "C" __global__ void attention_gradient(float* __restrict__ left, const elem* __restrict__ right,
                                              elem* __restrict__ gradient) {
    // Indexed [row][inner]; a column more, because the transposed matrix is written along it.
    __shared__ float left_tile[TILE][TILE + 1];
    __shared__ float right_tile[TILE][TILE];
    constexpr unsigned across = (D + TILE - 1) / TILE;
    constexpr unsigned down = (ROWS + TILE - 1) / TILE;
    const u64 tile = flat_workgroup();
    if (tile >= (u64)HEADS * down * across) return;
    const u64 head = tile / ((u64)down * across);
    const unsigned first_row = (unsigned)(tile / across % down) * TILE;
    const unsigned row = first_row + threadIdx.y;
    const unsigned d = (unsigned)(tile % across) * TILE + threadIdx.x;

    float acc = 0.0f;
    for (unsigned j0 = 0; j0 < INNER; j0 += TILE) {
        if constexpr (TRANSPOSED) {
            const unsigned j = j0 + threadIdx.y;
            const unsigned along = first_row + threadIdx.x;
            left_tile[threadIdx.x][threadIdx.y] =
                j < INNER && along < ROWS ? left[(head * INNER + j) * ROWS + along] : 0.0f;
        } else {
            const unsigned j = j0 + threadIdx.x;
            left_tile[threadIdx.y][threadIdx.x] =
                row < ROWS && j < INNER ? left[(head * ROWS + row) * INNER + j] : 0.0f;
        }
        const unsigned inner = j0 + threadIdx.y;
        right_tile[threadIdx.y][threadIdx.x] =
            inner < INNER && d < D ? load(right[(head * INNER + inner) * D + d]) : 0.0f;
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < TILE; i++) acc = fmaf(left_tile[threadIdx.y][i], right_tile[i][threadIdx.x], acc);
        __syncthreads();
    }
    if (row < ROWS && d < D) gradient[(head * ROWS + row) * D + d] = to_elem(acc);
}
