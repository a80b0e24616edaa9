// Shared by `flash` and `flash_mma`: which rows a block works on, and the scale.

#include "attention/common.cuh"
#include "lib/launch.cuh"

// What a block works on: a head and a tile of ROWS query rows. False for blocks past the last tile.
__device__ __forceinline__ bool flash_tile(u64& head, unsigned& first_row) {
    constexpr unsigned tiles = (S + ROWS - 1) / ROWS;
    const u64 index = flat_workgroup();
    if (index >= (u64)HEADS * tiles) return false;
    if constexpr (CAUSAL) {
        // The last rows see the most keys. Starting with them keeps the end of the launch from waiting for a few long
        // blocks.
        head = index % HEADS;
        first_row = (tiles - 1 - (unsigned)(index / HEADS)) * ROWS;
    } else {
        head = index / tiles;
        first_row = (unsigned)(index % tiles) * ROWS;
    }
    return true;
}

// The exponential is taken to base two, the hardware's own; the change of base is part of the scale.
constexpr float LOG2_E = 1.4426950408889634f;
__device__ __forceinline__ float flash_scale() { return LOG2_E / sqrtf((float)D); }
