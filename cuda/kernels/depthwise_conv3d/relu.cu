// Gradient before ReLU, in pieces: the result's gradient, and zero where the result is zero or below.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

extern "C" __global__ void depthwise_relu(const elem* __restrict__ out, const elem* __restrict__ dout,
                                          elem* __restrict__ dpre) {
    const u64 at = flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    const piece result = load_piece(out, at);
    piece gradient = load_piece(dout, at);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) gradient.at[i] = gated_by(result.at[i], gradient.at[i]);
    store_piece(dpre, at, gradient);
}
