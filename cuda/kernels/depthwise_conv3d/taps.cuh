// Taps and offsets of a piece of channels, or of one channel.

#include "depthwise_conv3d/walk.cuh"

__device__ __forceinline__ value tap_value(const elem* __restrict__ w, unsigned c, unsigned tap) {
    value wide;
    if constexpr (CHANNELS_LAST) {
        const piece channels = load_piece(w, (u64)tap * CHANNELS + c);
#pragma unroll
        for (unsigned lane = 0; lane < LANES; lane++) wide.at[lane] = channels.at[lane];
    } else {
        wide.at[0] = load(w[(u64)c * TAPS + tap]);
    }
    return wide;
}

__device__ __forceinline__ value bias_value(const elem* __restrict__ bias, unsigned c) {
    value wide;
#pragma unroll
    for (unsigned lane = 0; lane < LANES; lane++) wide.at[lane] = load(bias[c * LANES + lane]);
    return wide;
}
