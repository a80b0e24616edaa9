// Sums over strips of positions, per channel, where channels are last: of the gradient, and of its products with distances from
// the mean. A thread has the channels of a piece in a strip. The definition is in core/workloads/src/ops/conv_block.

#include "conv_block/gated.cuh"
#include "lib/launch.cuh"

constexpr unsigned CHANNEL_PIECES = CHANNELS / WIDTH;

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_block_gradient_columns(const elem* __restrict__ gradient, const elem* __restrict__ given,
                                const float* __restrict__ mean, float* __restrict__ strips
#if GATED
                                , const elem* __restrict__ result
#endif
    ) {
    const u64 thread = flat_workgroup() * THREADS + threadIdx.x, part = thread / CHANNEL_PIECES;
    const unsigned channels = (unsigned)(thread % CHANNEL_PIECES);
    if (part >= PARTS) return;
    const piece middle = load_floats(mean, channels);
    const u64 end = min((part + 1) * STRIP, (u64)ROWS) * CHANNEL_PIECES;
    piece sum = piece_of(0.0f), product = piece_of(0.0f);
#pragma unroll 4
    for (u64 at = part * STRIP * CHANNEL_PIECES + channels; at < end; at += CHANNEL_PIECES) {
        const piece value = load_piece(given, at);
#if GATED
        const piece own = gated(load_piece(gradient, at), load_piece(result, at));
#else
        const piece own = load_piece(gradient, at);
#endif
#pragma unroll
        for (unsigned k = 0; k < WIDTH; k++) {
            sum.at[k] += own.at[k];
            product.at[k] = fmaf(own.at[k], value.at[k] - middle.at[k], product.at[k]);
        }
    }
    store_floats(strips, 2 * part * CHANNEL_PIECES + channels, sum);
    store_floats(strips, (2 * part + 1) * CHANNEL_PIECES + channels, product);
}
