// Backward pass of softmax, in pieces: y and dout are read once, and kept in registers. The definition is in
// core/workloads/src/ops/softmax.

#include "lib/rows.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax_backward_row(const elem* __restrict__ y, const elem* __restrict__ dout, elem* __restrict__ dx) {
    const u64 row = flat_workgroup() * rows_at_once + threadIdx.x / LANES;
    const unsigned lane = threadIdx.x % LANES;
    const u64 base = row * row_pieces;

    // Threads without a row take part in the reduction.
    piece weights[PIECES], gradients[PIECES];
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
        const unsigned at = lane + k * LANES;
        const bool mine = row < ROWS && at < row_pieces;
        weights[k] = mine ? load_piece(y, base + at) : piece_of(0.0f);
        gradients[k] = mine ? load_piece(dout, base + at) : piece_of(0.0f);
    }
    float dot = 0.0f;
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) dot = fmaf(weights[k].at[i], gradients[k].at[i], dot);
    }
    dot = row_sum(dot);
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
        const unsigned at = lane + k * LANES;
        if (row >= ROWS || at >= row_pieces) continue;
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) weights[k].at[i] *= gradients[k].at[i] - dot;
        store_piece(dx, base + at, weights[k]);
    }
}
