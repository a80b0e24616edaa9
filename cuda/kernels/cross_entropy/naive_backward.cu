// Gradient of cross-entropy, one block of ROW_THREADS per row, one element at a time. The definition is in
// core/workloads/src/ops/cross_entropy.

#include "lib/launch.cuh"

extern "C" __global__ void cross_entropy_backward_naive(const elem* __restrict__ logits, const float* __restrict__ lse,
                                                        const unsigned* __restrict__ targets,
                                                        const float* __restrict__ dloss, elem* __restrict__ dlogits) {
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) {
        const u64 at = row * COLUMNS + j;
        const float weight = expf(load(logits[at]) - lse[row]);
        dlogits[at] = to_elem((weight - (j == targets[row] ? 1.0f : 0.0f)) * (dloss[0] * SHARE));
    }
}
