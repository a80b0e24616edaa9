// Cross-entropy, one block of ROW_THREADS per row, one element at a time: two passes over the row, for its maximum and its sum.
// The definition is in core/workloads/src/ops/cross_entropy.

#include "lib/launch.cuh"
#include "lib/reduce.cuh"

extern "C" __global__ void cross_entropy_naive(const elem* __restrict__ logits, float* __restrict__ lse,
                                               float* __restrict__ loss, const unsigned* __restrict__ targets) {
    __shared__ float partial[ROW_THREADS / 32];
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const u64 base = row * COLUMNS;

    float top = negative_infinity();
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) top = fmaxf(top, load(logits[base + j]));
    top = block_max(top, partial);
    float sum = 0.0f;
    for (unsigned j = threadIdx.x; j < COLUMNS; j += ROW_THREADS) sum += expf(load(logits[base + j]) - top);
    const float total = top + logf(block_sum(sum, partial));
    if (threadIdx.x == 0) {
        lse[row] = total;
        loss[row] = total - load(logits[base + targets[row]]);
    }
}
