// Logits of all pairs, a block per row of them and a thread per logit. The definition is in core/workloads/src/ops/loss_sigmoid.
//
// loss_sigmoid_naive_logits  stores the logits
// loss_sigmoid_naive_slopes  stores the loss's slopes by logit, and the row's parts of two sums of these: see `scalars`

#include "lib/launch.cuh"
#include "lib/reduce.cuh"
#include "loss_sigmoid/pair.cuh"

__device__ __forceinline__ float dot_of(const elem* __restrict__ x, const elem* __restrict__ y, u64 row, u64 column) {
    float sum = 0.0f;
    for (unsigned k = 0; k < D; k++) sum = fmaf(load(x[row * D + k]), load(y[column * D + k]), sum);
    return sum;
}

extern "C" __global__ void loss_sigmoid_naive_logits(const elem* __restrict__ x, const elem* __restrict__ y,
                                                     const float* __restrict__ temperature,
                                                     const float* __restrict__ bias, float* __restrict__ logits) {
    const u64 row = flat_workgroup();
    if (row >= N) return;
    for (unsigned column = threadIdx.x; column < N; column += ROW_THREADS) {
        logits[row * N + column] = fmaf(temperature[0], dot_of(x, y, row, column), bias[0]);
    }
}

extern "C" __global__ void loss_sigmoid_naive_slopes(const elem* __restrict__ x, const elem* __restrict__ y,
                                                     const float* __restrict__ temperature,
                                                     const float* __restrict__ bias, float* __restrict__ parts,
                                                     const float* __restrict__ dloss, float* __restrict__ slopes) {
    __shared__ float partial[ROW_THREADS / 32];
    const u64 row = flat_workgroup();
    if (row >= N) return;
    float along = 0.0f, level = 0.0f;
    for (unsigned column = threadIdx.x; column < N; column += ROW_THREADS) {
        const float dot = dot_of(x, y, row, column);
        const float slope = slope_of((unsigned)row, column, fmaf(temperature[0], dot, bias[0])) * (dloss[0] * SHARE);
        slopes[row * N + column] = slope;
        along = fmaf(slope, dot, along);
        level += slope;
    }
    along = block_sum(along, partial);
    level = block_sum(level, partial);
    if (threadIdx.x == 0) {
        parts[2 * row] = along;
        parts[2 * row + 1] = level;
    }
}
