#pragma once
// Tiles of QUERIES queries in device memory, as the stages of the backward pass by warpgroups share them.

#include "lib/exp2.cuh"
#include "lib/launch.cuh"

constexpr unsigned QUERY_TILES = (S + QUERIES - 1) / QUERIES;
// Numbers of a tile: of each query the log-sum-exp to base two, then of each query delta.
constexpr unsigned OF_NUMBERS = 2 * QUERIES;
// Columns of products and sums, a multiple of 16. Those from D on are zeros.
constexpr unsigned WIDTH = (D + 15) / 16 * 16, OF_SUMS = QUERIES * WIDTH;
// Queries of a warpgroup's part of dQ are its rows: 64 of the tile, with all columns, or all of the tile, with half of the columns.
constexpr bool BY_COLUMNS = QUERIES == 64;
static_assert(QUERIES == 64 || QUERIES == 128, "a warpgroup has 64 rows of dQ");
// Elements of the part in a thread.
constexpr unsigned PART = OF_SUMS / 256;
// Whether copies add dQ, or instructions. Instructions need no shared memory, copies no time of the threads.
constexpr bool IN_BULK = D != 64;
// Warps whose registers lie side by side. A copy adds those of one warp.
constexpr unsigned TOGETHER = IN_BULK ? 1 : 4;

// Query and column of a tile of the first element from 4 * n of a lane of the block's consumers. The second element follows in the
// row, and the other two lie eight rows below.
__device__ __forceinline__ unsigned query_of(unsigned warp, unsigned lane) {
    return (BY_COLUMNS ? 0 : warp / 4 * 64) + warp % 4 * 16 + lane / 4;
}

__device__ __forceinline__ unsigned column_of(unsigned warp, unsigned lane, unsigned n) {
    return (BY_COLUMNS ? warp / 4 * (WIDTH / 2) : 0) + n * 8 + lane % 4 * 2;
}

// Position in a tile's sums of the four registers from 4 * n of a lane of the block's consumers.
__device__ __forceinline__ unsigned order_of(unsigned warp, unsigned lane, unsigned n) {
    return ((warp / TOGETHER * (PART / 4) + n) * TOGETHER + warp % TOGETHER) * 128 + lane * 4;
}
