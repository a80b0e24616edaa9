// Parts of the loss from stored logits, by PARTS blocks. The definition is in core/workloads/src/ops/loss_sigmoid.

#include "lib/launch.cuh"
#include "lib/reduce.cuh"
#include "loss_sigmoid/pair.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    loss_sigmoid_terms(const float* __restrict__ logits, float* __restrict__ parts) {
    __shared__ float partial[THREADS / 32];
    const u64 part = flat_workgroup();
    if (part >= PARTS) return;
    float sum = 0.0f;
#pragma unroll 4
    for (u64 at = part * THREADS + threadIdx.x; at < COUNT; at += (u64)PARTS * THREADS) {
        sum += softplus(against((unsigned)at / N, (unsigned)at % N, logits[at]));
    }
    sum = block_sum(sum, partial);
    if (threadIdx.x == 0) parts[part] = sum;
}
