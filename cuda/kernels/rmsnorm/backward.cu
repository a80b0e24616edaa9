// Backward pass of RMS normalisation, in pieces: x and dout are read once. The definition is in core/workloads/src/ops/rmsnorm.
//
// PARTS blocks process all rows, and keep their part of the gradient of gamma in registers. rmsnorm_parts sums them.

#include "lib/over_rows.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    rmsnorm_backward_row(const elem* __restrict__ x, const float* __restrict__ rstd, const elem* __restrict__ gamma,
                         const elem* __restrict__ dout, elem* __restrict__ dx, float* __restrict__ parts) {
    const u64 part = flat_workgroup();
    if (part >= PARTS) return;
    const unsigned lane = threadIdx.x % LANES;
    constexpr u64 stride = (u64)PARTS * rows_at_once;
    // Loaded pieces stay as in memory: with 16-bit elements this takes half the registers.
    stored factors[PIECES], values[PIECES], gradients[PIECES];
    piece dgammas[PIECES];
    const auto fetch = [=](u64 row, stored* values, stored* gradients) {
#pragma unroll
        for (unsigned k = 0; k < PIECES; k++) {
            const unsigned at = lane + k * LANES;
            if (row >= ROWS || at >= row_pieces) continue;
            values[k] = load_stored(x, row * row_pieces + at);
            gradients[k] = load_stored(dout, row * row_pieces + at);
        }
    };
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
        const unsigned at = lane + k * LANES;
        // Absent elements count as zero.
        factors[k] = values[k] = gradients[k] = stored{};
        if (at < row_pieces) factors[k] = load_stored(gamma, at);
        dgammas[k] = piece_of(0.0f);
    }
    u64 row = part * rows_at_once + threadIdx.x / LANES;
    fetch(row, values, gradients);
    // All threads of the block take as many iterations as the first, for the barriers.
    for (u64 first = part * rows_at_once; first < ROWS; first += stride, row += stride) {
        const float scale = row < ROWS ? rstd[row] : 0.0f;
        // The next row is in flight while this one is reduced and written.
        stored next_values[PIECES], next_gradients[PIECES];
#pragma unroll
        for (unsigned k = 0; k < PIECES; k++) next_values[k] = next_gradients[k] = stored{};
        fetch(row + stride, next_values, next_gradients);
        float along = 0.0f;
#pragma unroll
        for (unsigned k = 0; k < PIECES; k++) {
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) {
                const float value = load(values[k].at[i]) * scale;
                const float gradient = load(gradients[k].at[i]);
                dgammas[k].at[i] = fmaf(gradient, value, dgammas[k].at[i]);
                along = fmaf(gradient * load(factors[k].at[i]), value, along);
            }
        }
        along = row_sum(along) / COLUMNS;
#pragma unroll
        for (unsigned k = 0; k < PIECES; k++) {
            const unsigned at = lane + k * LANES;
            if (row >= ROWS || at >= row_pieces) continue;
            piece result;
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) {
                const float value = load(values[k].at[i]) * scale;
                result.at[i] = scale * (load(gradients[k].at[i]) * load(factors[k].at[i]) - value * along);
            }
            store_piece(dx, row * row_pieces + at, result);
        }
#pragma unroll
        for (unsigned k = 0; k < PIECES; k++) {
            values[k] = next_values[k];
            gradients[k] = next_gradients[k];
        }
    }
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) store_part(parts + part * COLUMNS, dgammas[k], lane + k * LANES);
}
