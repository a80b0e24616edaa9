#pragma once
// Tiles of QUERIES queries in device memory, as the stages of the backward pass by warpgroups share them.

#include "lib/exp2.cuh"
#include "lib/launch.cuh"

constexpr unsigned QUERY_TILES = (S + QUERIES - 1) / QUERIES;
// Numbers of a tile: of each query the log-sum-exp to base two, then of each query delta.
constexpr unsigned OF_NUMBERS = 2 * QUERIES;
// Queries in a warpgroup's part of dQ: all of a tile with 64 columns, or half of them with all 64 columns. In the registers of a
// warpgroup, columns are rows.
constexpr unsigned PART = D == 128 ? QUERIES : QUERIES / 2;
// Whether copies add dQ, or instructions. Instructions need no shared memory, copies no time of the threads.
constexpr bool IN_BULK = D == 128;
// Warps whose registers lie side by side. A copy adds those of one warp.
constexpr unsigned TOGETHER = IN_BULK ? 1 : 4;

// Position in a tile's sums of the four registers from 4 * n of a lane of the block's consumers.
__device__ __forceinline__ unsigned order_of(unsigned warp, unsigned lane, unsigned n) {
    return ((warp / TOGETHER * (PART / 8) + n) * TOGETHER + warp % TOGETHER) * 128 + lane * 4;
}
