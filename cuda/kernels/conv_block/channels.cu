// Per-channel values applied to images. The definition is in core/workloads/src/ops/conv_block.
//
// conv_block_bias       adds a value per channel
// conv_block_normalise  normalises by mean, variance, factor and offset of each channel; with RELU it applies ReLU
// conv_block_relu       applies ReLU

#include "conv_block/place.cuh"

// Replaces each piece of a place, element by element.
template <typename Make>
__device__ __forceinline__ void for_each(const Place& place, const elem* __restrict__ given, elem* __restrict__ made,
                                         const Make& make) {
#pragma unroll 4
    for (unsigned at = place.begin; at < place.end; at += TOGETHER) {
        piece value = load_piece(given, at);
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) value.at[i] = make(value.at[i], i);
        store_piece(made, at, value);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_block_bias(const elem* __restrict__ given, elem* __restrict__ made, const elem* __restrict__ bias) {
    const Place place = place_of_thread();
    if (place.begin >= place.end) return;
    const piece more = of_channels(bias, place.channel);
    for_each(place, given, made, [&](float x, unsigned i) { return x + more.at[i]; });
}

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_block_normalise(const elem* __restrict__ given, elem* __restrict__ made, const float* __restrict__ mean,
                         const float* __restrict__ variance, const elem* __restrict__ gamma,
                         const elem* __restrict__ beta) {
    const Place place = place_of_thread();
    if (place.begin >= place.end) return;
    const piece middle = of_floats(mean, place.channel), offset = of_channels(beta, place.channel);
    piece factor = of_channels(gamma, place.channel);
    const piece spread = of_floats(variance, place.channel);
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) factor.at[i] /= sqrtf(spread.at[i] + EPS);
    for_each(place, given, made, [&](float x, unsigned i) {
        const float value = (x - middle.at[i]) * factor.at[i] + offset.at[i];
        return RELU ? relu(value) : value;
    });
}

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_block_relu(const elem* __restrict__ given, elem* __restrict__ made) {
    for_each(place_of_thread(), given, made, [](float x, unsigned) { return relu(x); });
}
