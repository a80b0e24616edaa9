// Symmetric percentage error and the penalty outside a band, in pieces, by PARTS blocks; each stores its part of a sum. The
// definition is in core/workloads/src/ops/loss_smape.rs. Quotients are approximate: with 16-bit elements, exact ones would limit
// the speed.
//
// loss_smape_error    the first term
// loss_smape_outside  the second term, stored after the parts of the first
// loss_smape_fused    both

#include "lib/launch.cuh"
#include "lib/pieces.cuh"
#include "lib/reduce.cuh"

__device__ __forceinline__ float sign_of(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f; }

__device__ __forceinline__ float error_of(float x, float t) {
    return __fdividef(2.0f * fabsf(x - t), fabsf(x) + fabsf(t) + EPS);
}

__device__ __forceinline__ float penalty_of(float x, float t) {
    const float size = fabsf(t);
    const float along = x * sign_of(t);
    const float outside = fmaxf(fmaxf(along - BAND * size, size * (1.0f / BAND) - along), 0.0f);
    return __fdividef(WEIGHT * outside, size + EPS);
}

template <typename Term>
__device__ __forceinline__ void store_part(const elem* __restrict__ pred, const elem* __restrict__ targets,
                                           float* __restrict__ parts, Term term) {
    __shared__ float partial[THREADS / 32];
    const u64 part = flat_workgroup();
    if (part >= PARTS) return;
    float sum = 0.0f;
#pragma unroll 4
    for (u64 at = part * THREADS + threadIdx.x; at < COUNT; at += (u64)PARTS * THREADS) {
        const piece x = load_piece(pred, at), t = load_piece(targets, at);
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) sum += term(x.at[i], t.at[i]);
    }
    sum = block_sum(sum, partial);
    if (threadIdx.x == 0) parts[part] = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    loss_smape_error(const elem* __restrict__ pred, const elem* __restrict__ targets, float* __restrict__ parts) {
    store_part(pred, targets, parts, error_of);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    loss_smape_outside(const elem* __restrict__ pred, const elem* __restrict__ targets, float* __restrict__ parts) {
    store_part(pred, targets, parts + PARTS, penalty_of);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    loss_smape_fused(const elem* __restrict__ pred, const elem* __restrict__ targets, float* __restrict__ parts) {
    store_part(pred, targets, parts, [](float x, float t) { return error_of(x, t) + penalty_of(x, t); });
}
