// Shares of the steps of tiles. WHOLE tiles are computed by one block each; the steps of all others, tile by tile, are divided evenly
// among BLOCKS blocks. A block has at most two parts of tiles: the end of one, and the beginning of another.

#include "lib/product_order.cuh"

// Steps of a tile, and tiles.
constexpr unsigned TILE_STEPS = (K + 63) / 64;
constexpr unsigned ACROSS = (N + BLOCK_N - 1) / BLOCK_N, DOWN = (M + BLOCK_M - 1) / BLOCK_M;
constexpr u64 SHARED_STEPS = (u64)(ACROSS * DOWN - WHOLE) * TILE_STEPS;

// First of the shared steps that a block has.
__device__ __forceinline__ unsigned share_of(unsigned block) { return (unsigned)(block * SHARED_STEPS / BLOCKS); }

// Block that has a shared step.
__device__ __forceinline__ unsigned block_of(unsigned step) { return (unsigned)((((u64)step + 1) * BLOCKS - 1) / SHARED_STEPS); }

// Number of a part of a tile among all parts: its block's second one if it begins the tile.
__device__ __forceinline__ unsigned part_of(unsigned block, bool begins) { return 2 * block + begins; }
