// Backward pass of layer normalisation, in pieces: x and dout are read once.
//
// PARTS blocks process all rows, and keep their part of the gradients of gamma and beta in registers. layernorm_parts sums them.
// The kernel decides on additional terms of the gradient of x.

#include "lib/over_rows.cuh"

template <typename Also>
__device__ __forceinline__ void backward_rows(const elem* __restrict__ x, const float* __restrict__ mean,
                                              const float* __restrict__ rstd, const elem* __restrict__ gamma,
                                              const elem* __restrict__ dout, elem* __restrict__ dx,
                                              float* __restrict__ parts, Also also) {
    const u64 part = flat_workgroup();
    if (part >= PARTS) return;
    const unsigned lane = threadIdx.x % LANES;
    constexpr u64 stride = (u64)PARTS * rows_at_once;
    // Loaded pieces stay as in memory: with 16-bit elements this takes half the registers.
    stored factors[PIECES], values[PIECES], gradients[PIECES];
    piece dgammas[PIECES], dbetas[PIECES];
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
        dgammas[k] = dbetas[k] = piece_of(0.0f);
    }
    u64 row = part * rows_at_once + threadIdx.x / LANES;
    fetch(row, values, gradients);
    // All threads of the block take as many iterations as the first, for the barriers.
    for (u64 first = part * rows_at_once; first < ROWS; first += stride, row += stride) {
        const float middle = row < ROWS ? mean[row] : 0.0f;
        const float scale = row < ROWS ? rstd[row] : 0.0f;
        // The next row is in flight while this one is reduced and written.
        stored next_values[PIECES], next_gradients[PIECES];
#pragma unroll
        for (unsigned k = 0; k < PIECES; k++) next_values[k] = next_gradients[k] = stored{};
        fetch(row + stride, next_values, next_gradients);
        float level = 0.0f, along = 0.0f;
#pragma unroll
        for (unsigned k = 0; k < PIECES; k++) {
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) {
                const float value = (load(values[k].at[i]) - middle) * scale;
                const float gradient = load(gradients[k].at[i]);
                dgammas[k].at[i] = fmaf(gradient, value, dgammas[k].at[i]);
                dbetas[k].at[i] += gradient;
                const float scaled = gradient * load(factors[k].at[i]);
                level += scaled;
                along = fmaf(scaled, value, along);
            }
        }
        const float2 sums = row_sums(level, along);
        level = sums.x / COLUMNS;
        along = sums.y / COLUMNS;
#pragma unroll
        for (unsigned k = 0; k < PIECES; k++) {
            const unsigned at = lane + k * LANES;
            if (row >= ROWS || at >= row_pieces) continue;
            piece result = also(row * row_pieces + at);
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) {
                const float value = (load(values[k].at[i]) - middle) * scale;
                const float scaled = load(gradients[k].at[i]) * load(factors[k].at[i]);
                result.at[i] += scale * (scaled - level - value * along);
            }
            store_piece(dx, row * row_pieces + at, result);
        }
#pragma unroll
        for (unsigned k = 0; k < PIECES; k++) {
            values[k] = next_values[k];
            gradients[k] = next_gradients[k];
        }
    }
    float* const mine = parts + part * 2 * COLUMNS;
#pragma unroll
    for (unsigned k = 0; k < PIECES; k++) {
        store_part(mine, dgammas[k], lane + k * LANES);
        store_part(mine + COLUMNS, dbetas[k], lane + k * LANES);
    }
}
