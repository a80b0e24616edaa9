// Means of strips of a channel's elements, and sums of squared distances from them, where channels are not last. A block reads
// its strip twice. Strips are short, so that the second pass reads from a cache. The definition is in
// core/workloads/src/ops/conv_block.

#include "conv_block/strip.cuh"
#include "lib/reduce.cuh"

// Sum of a term over the elements of a strip, for every thread.
template <typename Term>
__device__ __forceinline__ float over_strip(const elem* __restrict__ given, const Strip& strip, float* partial, const Term& term) {
    float sum = 0.0f;
#pragma unroll 4
    for (unsigned at = strip.begin + threadIdx.x; at < strip.end; at += ROW_THREADS) {
        const piece own = load_piece(given, place_in(strip.channel, at));
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++) sum += term(own.at[i]);
    }
    return block_sum(sum, partial);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    conv_block_planes(const elem* __restrict__ given, float* __restrict__ parts) {
    __shared__ float partial[ROW_THREADS / 32];
    const Strip strip = strip_of_block();
    if (strip.channel >= CHANNELS) return;
    const unsigned elements = (strip.end - strip.begin) * WIDTH;
    const float sum = over_strip(given, strip, partial, [](float x) { return x; }), mean = sum / (float)elements;
    const float around = over_strip(given, strip, partial, [&](float x) { return (x - mean) * (x - mean); });
    if (threadIdx.x == 0) {
        parts[2 * (u64)strip.part * CHANNELS + strip.channel] = mean;
        parts[(2 * (u64)strip.part + 1) * CHANNELS + strip.channel] = around;
    }
}
