// Squares of 2 x 2 results by Winograd: how they are counted, and where what is computed with lies. Of each of 16 products, pixels
// and sums lie group by group: as matrices of channels by squares, or of squares by channels where channels come last.

#include "conv2d/common.cuh"
#include "lib/launch.cuh"

constexpr unsigned TILES = IMAGES * TILES_Y * TILES_X;

// Where the first of a tile's 16 elements of a channel lies, of `channels` in each group; the others are TILES times all
// channels apart.
__device__ __forceinline__ unsigned element_of(unsigned channel, unsigned tile, unsigned channels) {
    return LAST ? (channel / channels * TILES + tile) * channels + channel % channels : channel * TILES + tile;
}

// Channel and tile of a thread, neighbours being neighbours in memory.
__device__ __forceinline__ uint2 of_thread(unsigned index, unsigned channels) {
    return LAST ? make_uint2(index % channels, index / channels) : make_uint2(index / TILES, index % TILES);
}

// Image, and row and column of a tile's first result.
__device__ __forceinline__ uint3 corner_of(unsigned tile) {
    constexpr unsigned of_image = TILES_Y * TILES_X;
    const unsigned within = tile % of_image;
    return make_uint3(tile / of_image, within / TILES_X * 2, within % TILES_X * 2);
}
