// Stretches scanned from their start values, tile by tile. The definition is in core/workloads/src/ops/scan.rs.

#include "scan/common.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    scan_tiles(const elem* __restrict__ x, const float* __restrict__ parts, elem* __restrict__ out) {
    const u64 part = flat_workgroup();
    if (part >= PARTS) return;
    const u64 end = (part + 1) * STRETCH < TILES ? (part + 1) * STRETCH : TILES;
    float carry = parts[part];
    for (u64 tile = part * STRETCH; tile < end; tile++) {
        piece own[tile_rows];
        float start[tile_rows];
        load_tile(own, x, tile);
        const float total = tile_starts(own, start);
        store_tile(out, own, start, carry, tile);
        carry += total;
    }
}
