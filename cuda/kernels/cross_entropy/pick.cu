// Losses from the logarithms of the softmax, one thread per row. The definition is in core/workloads/src/ops/cross_entropy.

#include "lib/launch.cuh"

extern "C" __global__ void cross_entropy_pick(const float* __restrict__ log_softmax,
                                              const unsigned* __restrict__ targets, float* __restrict__ loss) {
    const u64 row = flat_workgroup() * ROW_THREADS + threadIdx.x;
    if (row < ROWS) loss[row] = -log_softmax[row * COLUMNS + targets[row]];
}
