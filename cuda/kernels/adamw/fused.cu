// Step of AdamW in one stage, in pieces. The definition is in core/workloads/src/ops/adamw.rs.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    adamw_step(elem* __restrict__ param, const elem* __restrict__ grad, float* __restrict__ m, float* __restrict__ v) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_piece(param, at), first = load_floats(m, at), second = load_floats(v, at);
    const piece gradient = load_piece(grad, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) {
        const float slope = gradient.at[i];
        first.at[i] = fmaf(BETA1, first.at[i], REST1 * slope);
        second.at[i] = fmaf(BETA2, second.at[i], REST2 * slope * slope);
        const float direction = first.at[i] / (sqrtf(UNBIASED * second.at[i]) + EPS);
        value.at[i] = fmaf(DECAYED, value.at[i], -STEP * direction);
    }
    store_floats(m, at, first);
    store_floats(v, at, second);
    store_piece(param, at, value);
}
