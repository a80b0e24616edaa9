// Gradient of the bias where channels are not last: sums over images and positions of each channel, in parts. The definition is
// in core/workloads/src/ops/conv2d/backward.rs.

#include "lib/launch.cuh"
#include "lib/reduce.cuh"

extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    conv2d_channels(const elem* __restrict__ gradient, float* __restrict__ sums) {
    __shared__ float partial[ROW_THREADS / 32];
    const u64 index = flat_workgroup();
    const unsigned channel = (unsigned)(index / PARTS), part = (unsigned)(index % PARTS);
    if (channel >= CHANNELS) return;
    float sum = 0.0f;
#pragma unroll 4
    for (u64 e = part * ROW_THREADS + threadIdx.x; e < (u64)IMAGES * POSITIONS; e += PARTS * ROW_THREADS) {
        sum += load(gradient[(e / POSITIONS * CHANNELS + channel) * POSITIONS + e % POSITIONS]);
    }
    const float total = block_sum(sum, partial);
    if (threadIdx.x == 0) sums[part * CHANNELS + channel] = total;
}
