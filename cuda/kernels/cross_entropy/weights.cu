// Gradient of cross-entropy, in pieces. The definition is in core/workloads/src/ops/cross_entropy.
//
// cross_entropy_backward  gradient from logits
// cross_entropy_softmax   weights only

#include "lib/launch.cuh"
#include "lib/pieces.cuh"

constexpr unsigned row_pieces = COLUMNS / WIDTH;

extern "C" __global__ void __launch_bounds__(THREADS)
    cross_entropy_backward(const elem* __restrict__ logits, const float* __restrict__ lse,
                           const unsigned* __restrict__ targets, const float* __restrict__ dloss,
                           elem* __restrict__ dlogits) {
    const unsigned at = (unsigned)flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_piece(logits, at);
    const unsigned row = at / row_pieces;
    // Index of the target in this piece; most pieces have none.
    const unsigned target = targets[row] - at % row_pieces * WIDTH;
    const float total = lse[row], factor = dloss[0] * SHARE;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) {
        value.at[i] = (expf(value.at[i] - total) - (i == target ? 1.0f : 0.0f)) * factor;
    }
    store_piece(dlogits, at, value);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cross_entropy_softmax(const elem* __restrict__ logits, const float* __restrict__ lse, float* __restrict__ softmax) {
    const unsigned at = (unsigned)flat_workgroup() * THREADS + threadIdx.x;
    if (at >= COUNT) return;
    piece value = load_piece(logits, at);
    const float total = lse[at / row_pieces];
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) value.at[i] = expf(value.at[i] - total);
    store_floats(softmax, at, value);
}
