// Gradients of the per-channel parameters, from the totals of the gradient and of its products with distances from the mean. The
// definition is in core/workloads/src/ops/conv_block.

#include "lib/elem.cuh"
#include "lib/launch.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_block_numbers(const float* __restrict__ totals, const float* __restrict__ variance, elem* __restrict__ dgamma,
                       elem* __restrict__ dbeta
#if INFERENCE
                       , const elem* __restrict__ gamma, elem* __restrict__ dbias
#endif
    ) {
    const u64 channel = flat_workgroup() * THREADS + threadIdx.x;
    if (channel >= CHANNELS) return;
    const float deviation = sqrtf(variance[channel] + EPS);
    dgamma[channel] = to_elem(totals[CHANNELS + channel] / deviation);
    dbeta[channel] = to_elem(totals[channel]);
#if INFERENCE
    dbias[channel] = to_elem(totals[channel] * load(gamma[channel]) / deviation);
#endif
}
