// Columns scaled by what is known of them, a piece a thread. The definition is in core/workloads/src/ops/standard_scaler.rs.
//
// 10⁶×64 in f32 on an H200: 137 µs by strips whose threads keep the mean and the factor of their columns and have four pieces
// under way, 121 with a piece a thread (two 125, four 125, eight 126). A copy takes 120.

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
