// Sums of columns, in parts: blocks of 32 pieces times DOWN threads; each thread sums rows at a fixed stride, and stores its
// part. The definition is in core/workloads/src/ops/linear.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

extern "C" __global__ void linear_columns(const elem* __restrict__ x, float* __restrict__ sums) {
    constexpr unsigned row_pieces = COLUMNS / WIDTH, across = (row_pieces + 31) / 32;
    __shared__ piece partial[DOWN][32];
    const u64 index = flat_workgroup();
    const unsigned part = (unsigned)(index / across), column = (unsigned)(index % across) * 32 + threadIdx.x;
    if (part >= PARTS) return;
    piece sum = piece_of(0.0f);
    if (column < row_pieces) {
#pragma unroll 4
        for (unsigned row = part * DOWN + threadIdx.y; row < ROWS; row += PARTS * DOWN) {
            const piece value = load_piece(x, (u64)row * row_pieces + column);
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) sum.at[i] += value.at[i];
        }
    }
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || column >= row_pieces) return;
    for (unsigned i = 1; i < DOWN; i++) {
#pragma unroll
        for (unsigned e = 0; e < WIDTH; e++) sum.at[e] += partial[i][threadIdx.x].at[e];
    }
#pragma unroll
    for (unsigned e = 0; e < WIDTH; e++) sums[((u64)part * row_pieces + column) * WIDTH + e] = sum.at[e];
}
