// Step of AdamW in four stages, in pieces. The definition is in core/workloads/src/ops/adamw.rs.
//
// adamw_first      first moment: the mean of gradients
// adamw_second     second moment: the mean of squared gradients
// adamw_direction  ratio of the two
// adamw_apply      weight decay and update

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

extern "C" __global__ void adamw_first(float* __restrict__ m, const elem* __restrict__ grad) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_floats(m, at);
    const piece gradient = load_piece(grad, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) value.at[i] = fmaf(BETA1, value.at[i], REST1 * gradient.at[i]);
    store_floats(m, at, value);
}

extern "C" __global__ void adamw_second(float* __restrict__ v, const elem* __restrict__ grad) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_floats(v, at);
    const piece gradient = load_piece(grad, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) {
        value.at[i] = fmaf(BETA2, value.at[i], REST2 * gradient.at[i] * gradient.at[i]);
    }
    store_floats(v, at, value);
}

extern "C" __global__ void adamw_direction(float* __restrict__ direction, const float* __restrict__ first,
                                           const float* __restrict__ second) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_floats(first, at);
    const piece square = load_floats(second, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) value.at[i] /= sqrtf(UNBIASED * square.at[i]) + EPS;
    store_floats(direction, at, value);
}

extern "C" __global__ void adamw_apply(elem* __restrict__ param, const float* __restrict__ along) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_piece(param, at);
    const piece direction = load_floats(along, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) value.at[i] = fmaf(DECAYED, value.at[i], -STEP * direction.at[i]);
    store_piece(param, at, value);
}
