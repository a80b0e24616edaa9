// Index arithmetic of Winograd's F(2 x 2, 3 x 3): tiles of 2 x 2 results. Each of the 16 GEMMs has its operands group by group,
// as matrices of channels by tiles, or of tiles by channels where channels come last.

#include "conv2d/common.cuh"
#include "lib/launch.cuh"

constexpr unsigned TILES = IMAGES * TILES_Y * TILES_X;

// Index of the first of a tile's 16 elements of a channel, with `channels` per group. The others are TILES times all channels
// apart.
__device__ __forceinline__ unsigned element_of(unsigned channel, unsigned tile, unsigned channels) {
    return LAST ? (channel / channels * TILES + tile) * channels + channel % channels : channel * TILES + tile;
}

// Channel and tile of a thread. Neighbouring threads have neighbours in memory.
__device__ __forceinline__ uint2 of_thread(unsigned index, unsigned channels) {
    return LAST ? make_uint2(index % channels, index / channels) : make_uint2(index / TILES, index % TILES);
}

// Image, row and column of a tile's first result.
__device__ __forceinline__ uint3 corner_of(unsigned tile) {
    constexpr unsigned of_image = TILES_Y * TILES_X;
    const unsigned within = tile % of_image;
    return make_uint3(tile / of_image, within / TILES_X * 2, within % TILES_X * 2);
}
