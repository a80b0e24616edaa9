// Gradient of symmetric percentage error and of the penalty outside a band, in pieces. The definition is in
// core/workloads/src/ops/loss_smape.rs.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

__device__ __forceinline__ float sign_of(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f; }

extern "C" __global__ void __launch_bounds__(THREADS)
    loss_smape_backward(const elem* __restrict__ pred, const elem* __restrict__ targets,
                        const float* __restrict__ dloss, elem* __restrict__ dpred) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_piece(pred, at);
    const piece target = load_piece(targets, at);
    const float factor = dloss[0] * SHARE;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) {
        const float x = value.at[i], t = target.at[i], size = fabsf(t);
        // Quotient before the second product: the squared sum may overflow f32.
        const float inverse = __fdividef(1.0f, fabsf(x) + size + EPS);
        const float error = 2.0f * (sign_of(x - t) - fabsf(x - t) * inverse * sign_of(x)) * inverse;
        const float toward = sign_of(t);
        const float along = x * toward;
        const float outside = along > BAND * size ? toward : along < size * (1.0f / BAND) ? -toward : 0.0f;
        value.at[i] = (error + __fdividef(WEIGHT * outside, size + EPS)) * factor;
    }
    store_piece(dpred, at, value);
}
