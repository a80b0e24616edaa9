// Cross-entropy of logits that are dot products, a block per row of them and a thread per logit: running maxima and sums. The
// definition is in core/workloads/src/ops/linear_cross_entropy.

#include "lib/launch.cuh"
#include "linear_cross_entropy/part.cuh"

extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    linear_cross_entropy_naive(const elem* __restrict__ x, const elem* __restrict__ w, const unsigned* __restrict__ targets,
                               float* __restrict__ loss, float* __restrict__ lse) {
    __shared__ float partial[ROW_THREADS / 32];
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const unsigned target = targets[row];
    float2 part = no_part();
    float of_target = 0.0f;
    for (unsigned column = threadIdx.x; column < CLASSES; column += ROW_THREADS) {
        float logit = 0.0f;
        for (unsigned k = 0; k < DEPTH; k++) logit = fmaf(load(x[row * DEPTH + k]), load(w[(u64)column * DEPTH + k]), logit);
        part = joined(part, make_float2(logit, 1.0f));
        if (column == target) of_target = logit;
    }
    const float top = block_max(part.x, partial);
    const float sum = block_sum(part.y * exponential(part.x - top), partial);
    of_target = block_sum(of_target, partial);
    if (threadIdx.x == 0) {
        const float total = log_sum(make_float2(top, sum));
        lse[row] = total;
        loss[row] = target < CLASSES ? total - of_target : 0.0f;
    }
}
