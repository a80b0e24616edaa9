// Sums of stretches: PARTS blocks, each with STRETCH consecutive tiles. The definition is in core/workloads/src/ops/scan.rs.

#include "lib/reduce.cuh"
#include "scan/common.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    scan_sums(const elem* __restrict__ x, float* __restrict__ parts) {
    __shared__ float partial[warps];
    const u64 part = flat_workgroup();
    if (part >= PARTS) return;
    const u64 end = (part + 1) * STRETCH < TILES ? (part + 1) * STRETCH : TILES;
    float sum = 0.0f;
    for (u64 tile = part * STRETCH; tile < end; tile++) {
        piece own[tile_rows];
        load_tile(own, x, tile);
#pragma unroll
        for (unsigned row = 0; row < tile_rows; row++) {
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) sum += own[row].at[i];
        }
    }
    sum = block_sum(sum, partial);
    if (threadIdx.x == 0) parts[part] = sum;
}
