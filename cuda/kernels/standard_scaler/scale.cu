// Columns scaled by their mean and factor, a piece per thread. The definition is in core/workloads/src/ops/standard_scaler.rs.
// Measurements: docs/notebook/2026-11-28-kernel-notes.md.

#include "lib/rows.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    standard_scaler_scale(const elem* __restrict__ x, const float* __restrict__ mean,
                          const float* __restrict__ variance, elem* __restrict__ out) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= (u64)ROWS * row_pieces) return;
    const unsigned column = (unsigned)(at % row_pieces);
    piece own = load_piece(x, at);
    const piece middle = load_floats(mean, column), variances = load_floats(variance, column);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) own.at[i] = (own.at[i] - middle.at[i]) * (1.0f / sqrtf(variances.at[i] + EPS));
    store_piece(out, at, own);
}
