// Of strips of a channel's elements the sum of the gradient, and of its products with distances from the mean, where channels are not
// last: a block for each strip. The definition is in core/src/suite/workloads/conv_block.

#include "conv_block/gated.cuh"
#include "lib/launch.cuh"
#include "lib/reduce.cuh"

constexpr unsigned PLANE_PIECES = PLANE / WIDTH;

extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    conv_block_gradient_planes(const elem* __restrict__ gradient, const elem* __restrict__ given,
                               const float* __restrict__ mean, float* __restrict__ strips
#when GATED                                , const elem* __restrict__ result
    ) {
    __shared__ float partial[ROW_THREADS / 32];
    const u64 flat = flat_workgroup();
    const unsigned channel = (unsigned)(flat / PARTS), part = (unsigned)(flat % PARTS);
    if (channel >= CHANNELS) return;
    const float middle = mean[channel];
    const unsigned begin = part * (STRIP / WIDTH), end = begin + min(STRIP, ROWS - part * STRIP) / WIDTH;
    float sum = 0.0f, product = 0.0f;
#pragma unroll 4
    for (unsigned i = begin + threadIdx.x; i < end; i += ROW_THREADS) {
        const u64 at = (u64)(i / PLANE_PIECES * CHANNELS + channel) * PLANE_PIECES + i % PLANE_PIECES;
        const piece value = load_piece(given, at);
#when GATED         const piece own = gated(load_piece(gradient, at), load_piece(result, at));
#when !GATED         const piece own = load_piece(gradient, at);
#pragma unroll
        for (unsigned k = 0; k < WIDTH; k++) {
            sum += own.at[k];
            product = fmaf(own.at[k], value.at[k] - middle, product);
        }
    }
    const float all = block_sum(sum, partial), products = block_sum(product, partial);
    if (threadIdx.x == 0) {
        strips[2 * (u64)part * CHANNELS + channel] = all;
        strips[(2 * (u64)part + 1) * CHANNELS + channel] = products;
    }
}
