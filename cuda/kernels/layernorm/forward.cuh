// Layer normalisation of rows, in pieces: a row is read once and kept in registers, PIECES pieces in each of LANES threads.
//
// The kernel supplies the values of a row, so that a sum can be normalised as it is computed. It calls `note` when all values are
// loaded: a store between loads would serialise them.

#include "lib/rows.cuh"

template <typename RowValue, typename Note>
__device__ __forceinline__ void normalise_row(RowValue row_value, Note note, const elem* __restrict__ gamma,
                                              const elem* __restrict__ beta, elem* __restrict__ out,
                                              float* __restrict__ mean, float* __restrict__ rstd) {
    const u64 row = flat_workgroup() * rows_at_once + threadIdx.x / LANES;
    const unsigned lane = threadIdx.x % LANES;
    const u64 base = row * row_pieces;

    // Threads without a row take part in the reductions.
    piece kept[PIECES];
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
        const unsigned at = lane + k * LANES;
        kept[k] = row < ROWS && at < row_pieces ? row_value(base + at) : piece_of(0.0f);
    }
    float sum = 0.0f;
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
        const unsigned at = lane + k * LANES;
        if (row < ROWS && at < row_pieces) note(base + at, kept[k]);
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) sum += kept[k].at[i];
    }
    const float middle = row_sum(sum) / COLUMNS;
    float square_sum = 0.0f;
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
        if (lane + k * LANES >= row_pieces) continue;
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) {
            kept[k].at[i] -= middle;
            square_sum = fmaf(kept[k].at[i], kept[k].at[i], square_sum);
        }
    }
    const float scale = rsqrtf(row_sum(square_sum) / COLUMNS + EPS);
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
        const unsigned at = lane + k * LANES;
        if (row >= ROWS || at >= row_pieces) continue;
        const piece factor = load_piece(gamma, at), offset = load_piece(beta, at);
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) kept[k].at[i] = fmaf(kept[k].at[i] * scale, factor.at[i], offset.at[i]);
        store_piece(out, base + at, kept[k]);
    }
    if (row < ROWS && lane == 0) {
        mean[row] = middle;
        rstd[row] = scale;
    }
}
