// Epilogue of a GEMM as a stage of its own, in pieces: bias, GELU, residual. The definition is in core/workloads/src/ops/linear.

#include "gelu/share.cuh"
#include "lib/launch.cuh"
#include "lib/pieces.cuh"

__device__ __forceinline__ piece biased(const elem* __restrict__ product, const elem* __restrict__ bias, u64 at) {
    piece value = load_piece(product, at);
    const piece added = load_piece(bias, at % BIAS_PIECES);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) value.at[i] += added.at[i];
    return value;
}

extern "C" __global__ void linear_finish_bias(const elem* __restrict__ product, elem* __restrict__ out,
                                              const elem* __restrict__ bias) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at < COUNT) store_piece(out, at, biased(product, bias, at));
}

extern "C" __global__ void linear_finish_gelu(const elem* __restrict__ product, elem* __restrict__ out,
                                              const elem* __restrict__ bias) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = biased(product, bias, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) value.at[i] = gelu_tanh(value.at[i]);
    store_piece(out, at, value);
}

extern "C" __global__ void linear_finish_residual(const elem* __restrict__ product, elem* __restrict__ out,
                                                  const elem* __restrict__ bias, const elem* __restrict__ residual) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = biased(product, bias, at);
    const piece added = load_piece(residual, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) value.at[i] = gelu_tanh(value.at[i]) + added.at[i];
    store_piece(out, at, value);
}
