// Squares of 2 x 2 results by Winograd: how they are counted, and where what is computed with lies. Of each of 16 products, pixels
// and sums lie group by group: as matrices of channels by squares, or of squares by channels where channels come last.

#include "conv2d/common.cuh"
#include "lib/launch.cuh"

constexpr unsigned SQUARES = IMAGES * SQUARES_DOWN * SQUARES_ACROSS;

// Where the first of a square's 16 elements of a channel lies, of `channels` in each group; the others are SQUARES times all
// channels apart.
__device__ __forceinline__ unsigned square_at(unsigned channel, unsigned square, unsigned channels) {
    return LAST ? (channel / channels * SQUARES + square) * channels + channel % channels : channel * SQUARES + square;
}

// Channel and square of a thread, neighbours being neighbours in memory.
__device__ __forceinline__ uint2 of_thread(unsigned index, unsigned channels) {
    return LAST ? make_uint2(index % channels, index / channels) : make_uint2(index / SQUARES, index % SQUARES);
}

// Image, and row and column of a square's first result.
__device__ __forceinline__ uint3 corner_of(unsigned square) {
    constexpr unsigned of_image = SQUARES_DOWN * SQUARES_ACROSS;
    const unsigned within = square % of_image;
    return make_uint3(square / of_image, within / SQUARES_ACROSS * 2, within % SQUARES_ACROSS * 2);
}
