// Sum of two matrices, in pieces: to a third one, or in place of a term. The definition is in
// core/workloads/src/ops/add_layernorm.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

extern "C" __global__ void residual_add(elem* __restrict__ sum, const elem* __restrict__ x, const elem* __restrict__ residual) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_piece(x, at);
    const piece other = load_piece(residual, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) value.at[i] += other.at[i];
    store_piece(sum, at, value);
}

extern "C" __global__ void residual_add_in_place(elem* __restrict__ sum, const elem* __restrict__ x) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_piece(x, at);
    const piece other = load_piece(sum, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) value.at[i] += other.at[i];
    store_piece(sum, at, value);
}
