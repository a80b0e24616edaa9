// Gradient of one set of embeddings from the slopes and the other set, one element per thread. The definition is in
// core/workloads/src/ops/loss_sigmoid.

#include "lib/launch.cuh"

extern "C" __global__ void loss_sigmoid_naive_gradient(const float* __restrict__ slopes,
                                                       const float* __restrict__ temperature,
                                                       const elem* __restrict__ other, elem* __restrict__ gradient) {
    const u64 at = flat_workgroup() * ROW_THREADS + threadIdx.x;
    if (at >= (u64)N * D) return;
    const u64 row = at / D;
    float sum = 0.0f;
    for (u64 term = 0; term < N; term++) {
        sum = fmaf(slopes[BY_COLUMNS ? term * N + row : row * N + term], load(other[term * D + at % D]), sum);
    }
    gradient[at] = to_elem(temperature[0] * sum);
}
