// Losses from stored logits and the logarithms of their sums, one thread per row. The definition is in
// core/workloads/src/ops/linear_cross_entropy.

#include "lib/launch.cuh"

extern "C" __global__ void linear_cross_entropy_pick(const float* __restrict__ logits, const float* __restrict__ lse,
                                                     const unsigned* __restrict__ targets, float* __restrict__ loss) {
    const u64 row = flat_workgroup() * ROW_THREADS + threadIdx.x;
    if (row >= ROWS) return;
    const unsigned target = targets[row];
    loss[row] = target < CLASSES ? lse[row] - logits[row * CLASSES + target] : 0.0f;
}
