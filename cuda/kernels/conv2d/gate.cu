// Gradient before ReLU, in pieces: the result's gradient, and zero where the result is zero or below. The definition is in
// core/workloads/src/ops/conv2d/backward.rs.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

extern "C" __global__ void conv2d_gate(const elem* __restrict__ result, const elem* __restrict__ gradient,
                                       elem* __restrict__ gated) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const piece above = load_piece(result, at);
    piece value = load_piece(gradient, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) {
        value.at[i] = gated_by(above.at[i], value.at[i]);
    }
    store_piece(gated, at, value);
}
