// Sum of the PARTS of a GEMM that was split along K, in pieces, and its epilogue: bias, GELU, residual. The definition is in
// core/workloads/src/ops/linear.

#include "gelu/share.cuh"
#include "lib/launch.cuh"
#include "lib/pieces.cuh"

__device__ __forceinline__ piece biased_sum(const float* __restrict__ parts, const elem* __restrict__ bias, u64 at) {
    piece sum = load_floats(parts, at);
#pragma unroll
    for (unsigned part = 1; part < PARTS; part++) {
        const piece next = load_floats(parts, part * (u64)COUNT + at);
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) sum.at[i] += next.at[i];
    }
    const piece added = load_piece(bias, at % BIAS_PIECES);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) sum.at[i] += added.at[i];
    return sum;
}

extern "C" __global__ void linear_split_bias(const float* __restrict__ parts, elem* __restrict__ out,
                                             const elem* __restrict__ bias) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at < COUNT) store_piece(out, at, biased_sum(parts, bias, at));
}

extern "C" __global__ void linear_split_gelu(const float* __restrict__ parts, elem* __restrict__ out,
                                             const elem* __restrict__ bias) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = biased_sum(parts, bias, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) value.at[i] = gelu_tanh(value.at[i]);
    store_piece(out, at, value);
}

extern "C" __global__ void linear_split_residual(const float* __restrict__ parts, elem* __restrict__ out,
                                                 const elem* __restrict__ bias, const elem* __restrict__ residual) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = biased_sum(parts, bias, at);
    const piece added = load_piece(residual, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) value.at[i] = gelu_tanh(value.at[i]) + added.at[i];
    store_piece(out, at, value);
}
