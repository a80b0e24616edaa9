// Sums over strips of a channel's elements, where channels are not last: of the gradient, and of its products with distances from
// the mean. A block has a strip. The definition is in core/workloads/src/ops/conv_block.

#include "conv_block/gated.cuh"
#include "conv_block/strip.cuh"
#include "lib/reduce.cuh"

extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    conv_block_gradient_planes(const elem* __restrict__ gradient, const elem* __restrict__ given,
                               const float* __restrict__ mean, float* __restrict__ strips
#if GATED
                               , const elem* __restrict__ result
#endif
    ) {
    __shared__ float partial[ROW_THREADS / 32];
    const Strip strip = strip_of_block();
    if (strip.channel >= CHANNELS) return;
    const float middle = mean[strip.channel];
    float sum = 0.0f, product = 0.0f;
#pragma unroll 4
    for (unsigned i = strip.begin + threadIdx.x; i < strip.end; i += ROW_THREADS) {
        const u64 at = place_in(strip.channel, i);
        const piece value = load_piece(given, at);
#if GATED
        const piece own = gated(load_piece(gradient, at), load_piece(result, at));
#else
        const piece own = load_piece(gradient, at);
#endif
#pragma unroll
        for (unsigned k = 0; k < WIDTH; k++) {
            sum += own.at[k];
            product = fmaf(own.at[k], value.at[k] - middle, product);
        }
    }
    const float all = block_sum(sum, partial), products = block_sum(product, partial);
    if (threadIdx.x == 0) {
        strips[2 * (u64)strip.part * CHANNELS + strip.channel] = all;
        strips[(2 * (u64)strip.part + 1) * CHANNELS + strip.channel] = products;
    }
}
