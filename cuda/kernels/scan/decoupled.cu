// Running sums in one pass, by decoupled look-back: a block per tile. The definition is in core/workloads/src/ops/scan.rs.

#include "scan/look_back.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    scan_decoupled(const elem* __restrict__ x, unsigned* __restrict__ states, elem* __restrict__ out) {
    __shared__ unsigned number;
    __shared__ float before;
    if (threadIdx.x == 0) number = atomicAdd(states, 1u);
    __syncthreads();
    const unsigned tile = number;
    // Padding blocks of a rectangular launch.
    if (tile >= TILES) return;
    u64* const words = reinterpret_cast<u64*>(states) + 1;

    piece own[tile_rows];
    float start[tile_rows];
    load_tile(own, x, tile);
    const float total = tile_starts(own, start);
    if (threadIdx.x < 32) {
        const float sum = exchanged(words, tile, total);
        if (threadIdx.x == 0) before = sum;
    }
    __syncthreads();
    store_tile(out, own, start, before, tile);
}
