// Softmax of rows, in pieces: see lib/rows.cuh. The definition is in core/workloads/src/ops/softmax.
//
// softmax_online  two passes over a row: running maximum and sum of each thread, then the result
// softmax_row     the row is read once and kept in registers, PIECES pieces in each of LANES threads

#include "lib/exponential.cuh"
#include "lib/rows.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) softmax_online(const elem* __restrict__ x,
                                                                     elem* __restrict__ out) {
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const u64 base = row * row_pieces;

    // A thread may have no piece, or only minus infinity.
    float top = LOWEST;
    float sum = 0.0f;
#pragma unroll 4
    for (unsigned at = threadIdx.x; at < row_pieces; at += LANES) {
        const piece value = load_piece(x, base + at);
        float higher = top;
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) higher = fmaxf(higher, value.at[i]);
        sum *= exponential(top - higher);
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) sum += exponential(value.at[i] - higher);
        top = higher;
    }
    const float row_top = row_max(top);
    const float scale = 1.0f / row_sum(sum * exponential(top - row_top));
#pragma unroll 4
    for (unsigned at = threadIdx.x; at < row_pieces; at += LANES) {
        piece value = load_piece(x, base + at);
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) value.at[i] = exponential(value.at[i] - row_top) * scale;
        store_piece(out, base + at, value);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) softmax_row(const elem* __restrict__ x, elem* __restrict__ out) {
    const u64 row = flat_workgroup() * rows_at_once + threadIdx.x / LANES;
    const unsigned lane = threadIdx.x % LANES;
    const u64 base = row * row_pieces;

    // Threads without a row take part in the reductions.
    piece kept[PIECES];
    float top = negative_infinity();
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
        const unsigned at = lane + k * LANES;
        kept[k] = row < ROWS && at < row_pieces ? load_piece(x, base + at) : piece_of(negative_infinity());
    }
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) top = fmaxf(top, kept[k].at[i]);
    }
    top = row_max(top);
    float sum = 0.0f;
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) sum += kept[k].at[i] = exponential(kept[k].at[i] - top);
    }
    const float scale = 1.0f / row_sum(sum);
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
        const unsigned at = lane + k * LANES;
        if (row >= ROWS || at >= row_pieces) continue;
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) kept[k].at[i] *= scale;
        store_piece(out, base + at, kept[k]);
    }
}
