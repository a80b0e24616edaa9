// Means of strips of a channel's elements, and sums of squares around them, where channels are not last: a block for each strip, which
// goes over it twice. A strip is short enough that the second time it comes from a cache. The definition is in
// core/src/suite/workloads/conv_block.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"
#include "lib/reduce.cuh"

constexpr unsigned PLANE_PIECES = PLANE / WIDTH;

// The sum of a term of each element of a strip of a channel, whose planes are counted one behind the other: for every thread.
template <typename Term>
__device__ __forceinline__ float over_strip(const elem* __restrict__ given, unsigned channel, uint2 pieces, float* partial,
                                            const Term& term) {
    float sum = 0.0f;
#pragma unroll 4
    for (unsigned at = pieces.x + threadIdx.x; at < pieces.y; at += ROW_THREADS) {
        const u64 place = (u64)(at / PLANE_PIECES * CHANNELS + channel) * PLANE_PIECES + at % PLANE_PIECES;
        const piece own = load_piece(given, place);
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) sum += term(own.at[i]);
    }
    return block_sum(sum, partial);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    conv_block_planes(const elem* __restrict__ given, float* __restrict__ parts) {
    __shared__ float partial[ROW_THREADS / 32];
    const u64 flat = flat_workgroup();
    const unsigned channel = (unsigned)(flat / PARTS), part = (unsigned)(flat % PARTS);
    if (channel >= CHANNELS) return;
    const unsigned elements = min(STRIP, ROWS - part * STRIP), begin = part * (STRIP / WIDTH);
    const uint2 pieces = make_uint2(begin, begin + elements / WIDTH);
    const float sum = over_strip(given, channel, pieces, partial, [](float x) { return x; }), mean = sum / (float)elements;
    const float around =
        over_strip(given, channel, pieces, partial, [&](float x) { return (x - mean) * (x - mean); });
    if (threadIdx.x == 0) {
        parts[2 * (u64)part * CHANNELS + channel] = mean;
        parts[(2 * (u64)part + 1) * CHANNELS + channel] = around;
    }
}
