// RMS normalisation of rows, in pieces: a row is read once and kept in registers, PIECES pieces in each of LANES threads. The
// definition is in core/workloads/src/ops/rmsnorm.

#include "lib/rows.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    rmsnorm_row(const elem* __restrict__ x, const elem* __restrict__ gamma, elem* __restrict__ out,
                float* __restrict__ rstd) {
    const u64 row = flat_workgroup() * rows_at_once + threadIdx.x / LANES;
    const unsigned lane = threadIdx.x % LANES;
    const u64 base = row * row_pieces;

    // Threads without a row take part in the reduction.
    piece kept[PIECES];
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
        const unsigned at = lane + k * LANES;
        kept[k] = row < ROWS && at < row_pieces ? load_piece(x, base + at) : piece_of(0.0f);
    }
    float square_sum = 0.0f;
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) square_sum = fmaf(kept[k].at[i], kept[k].at[i], square_sum);
    }
    const float scale = rsqrtf(row_sum(square_sum) / COLUMNS + EPS);
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
        const unsigned at = lane + k * LANES;
        if (row >= ROWS || at >= row_pieces) continue;
        const piece factor = load_piece(gamma, at);
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) kept[k].at[i] *= scale * factor.at[i];
        store_piece(out, base + at, kept[k]);
    }
    if (row < ROWS && lane == 0) rstd[row] = scale;
}
