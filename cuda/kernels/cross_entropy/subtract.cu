// Gradient of cross-entropy from weights, in pieces. The definition is in core/workloads/src/ops/cross_entropy.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

constexpr unsigned row_pieces = COLUMNS / WIDTH;

extern "C" __global__ void __launch_bounds__(THREADS)
    cross_entropy_subtract(const float* __restrict__ softmax, const unsigned* __restrict__ targets,
                           const float* __restrict__ dloss, elem* __restrict__ dlogits) {
    const unsigned at = (unsigned)flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_floats(softmax, at);
    // Index of the target in this piece; most pieces have none.
    const unsigned target = targets[at / row_pieces] - at % row_pieces * WIDTH;
    const float factor = dloss[0] * SHARE;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) value.at[i] = (value.at[i] - (i == target ? 1.0f : 0.0f)) * factor;
    store_piece(dlogits, at, value);
}
