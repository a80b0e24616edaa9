// Running sums in one pass, by decoupled look-back: a block per tile, which waits in shared memory. From compute capability 8.0
// on. The definition is in core/workloads/src/ops/scan.rs.
//
// Registers hold the start of each piece only, so that more blocks are resident than with the tile in registers. A thread
// reads its own copies only, so that they need no barrier. Pieces have 16 bytes.

#include "lib/async_copy.cuh"
#include "scan/look_back.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    scan_staged(const elem* __restrict__ x, unsigned* __restrict__ states, elem* __restrict__ out) {
    extern __shared__ uint4 shared[];
    stored(*const own)[THREADS] = reinterpret_cast<stored(*)[THREADS]>(shared);
    __shared__ unsigned number;
    __shared__ float before;
    if (threadIdx.x == 0) number = atomicAdd(states, 1u);
    __syncthreads();
    const unsigned tile = number;
    // Padding blocks of a rectangular launch.
    if (tile >= TILES) return;
    const u64 first = first_piece(tile);
#pragma unroll
    for (unsigned row = 0; row < tile_rows; row++) {
        const bool inside = first + row * 32 < COUNT;
        copy_async(&own[row][threadIdx.x], reinterpret_cast<const stored*>(x) + (inside ? first + row * 32 : 0), inside);
    }
    close_copies();
    wait_for_copies<0>();
    float start[tile_rows];
    const auto piece_at = [&](unsigned row) { return widened(own[row][threadIdx.x]); };
    const float total = starts_of(piece_at, start);
    if (threadIdx.x < 32) {
        const float sum = exchanged(reinterpret_cast<u64*>(states) + 1, tile, total);
        if (threadIdx.x == 0) before = sum;
    }
    __syncthreads();
    store_sums(out, piece_at, start, before, tile);
}
