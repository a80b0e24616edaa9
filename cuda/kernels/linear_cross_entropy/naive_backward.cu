// Gradients by a thread an element. The definition is in core/workloads/src/ops/linear_cross_entropy.
//
// linear_cross_entropy_naive_slopes    gradients of all logits, in f32
// linear_cross_entropy_naive_gradient  gradient of X, or BY_COLUMNS of W, from these and the other matrix

#include "lib/launch.cuh"
#include "linear_cross_entropy/slope.cuh"

extern "C" __global__ void linear_cross_entropy_naive_slopes(const elem* __restrict__ x, const elem* __restrict__ w,
                                                             const unsigned* __restrict__ targets,
                                                             const float* __restrict__ lse, const float* __restrict__ dloss,
                                                             float* __restrict__ slopes) {
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const Row of_row((unsigned)row, targets, lse, dloss);
    for (unsigned column = threadIdx.x; column < CLASSES; column += ROW_THREADS) {
        float logit = 0.0f;
        for (unsigned k = 0; k < DEPTH; k++) logit = fmaf(load(x[row * DEPTH + k]), load(w[(u64)column * DEPTH + k]), logit);
        slopes[row * CLASSES + column] = of_row.slope(column, logit);
    }
}

extern "C" __global__ void linear_cross_entropy_naive_gradient(const float* __restrict__ all_slopes,
                                                               const elem* __restrict__ other,
                                                               elem* __restrict__ gradient) {
    constexpr unsigned rows = BY_COLUMNS ? CLASSES : ROWS, terms = BY_COLUMNS ? ROWS : CLASSES;
    const u64 at = flat_workgroup() * ROW_THREADS + threadIdx.x;
    if (at >= (u64)rows * DEPTH) return;
    const u64 row = at / DEPTH;
    float sum = 0.0f;
    for (u64 term = 0; term < terms; term++) {
        const float slope = all_slopes[BY_COLUMNS ? term * CLASSES + row : row * CLASSES + term];
        sum = fmaf(slope, load(other[term * DEPTH + at % DEPTH]), sum);
    }
    gradient[at] = to_elem(sum);
}
