// Gradient of the normalised input. With INFERENCE the statistics are given. Otherwise they depend on the input: this removes the
// gradient's mean, and its mean product with the normalised values times these. The definition is in
// core/workloads/src/ops/conv_block.

#include "conv_block/gated.cuh"
#include "conv_block/place.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_block_gradient(const elem* __restrict__ gradient, const elem* __restrict__ given, const float* __restrict__ mean,
                        elem* __restrict__ made, const float* __restrict__ variance, const elem* __restrict__ gamma,
                        const float* __restrict__ totals
#if GATED
                        , const elem* __restrict__ result
#endif
    ) {
    const Place place = place_of_thread();
    if (place.begin >= place.end) return;
    const piece middle = of_floats(mean, place.channel), spread = of_floats(variance, place.channel);
    piece factor = of_channels(gamma, place.channel), lift = of_floats(totals, place.channel);
    piece slope = of_floats(totals + CHANNELS, place.channel);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) {
        const float wide = spread.at[i] + EPS;
        factor.at[i] /= sqrtf(wide);
        lift.at[i] /= (float)ROWS;
        slope.at[i] /= (float)ROWS * wide;
    }
#pragma unroll 4
    for (unsigned at = place.begin; at < place.end; at += TOGETHER) {
#if GATED
        piece value = gated(load_piece(gradient, at), load_piece(result, at));
#else
        piece value = load_piece(gradient, at);
#endif
        if (!INFERENCE) {
            const piece own = load_piece(given, at);
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) {
                value.at[i] -= fmaf(own.at[i] - middle.at[i], slope.at[i], lift.at[i]);
            }
        }
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) value.at[i] *= factor.at[i];
        store_piece(made, at, value);
    }
}
