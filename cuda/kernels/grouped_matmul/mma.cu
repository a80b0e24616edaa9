// Grouped GEMM on tensor cores: warp-wide products of 16-bit floats, sums in f32. The definition is in
// core/workloads/src/ops/grouped_matmul.

#include "grouped_matmul/place.cuh"
#include "lib/product_mma.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    grouped_matmul_mma(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                       const unsigned* __restrict__ tiles) {
    GroupedTile tile;
    if (!find_tile(tiles, flat_workgroup(), tile)) return;
    product_mma_tile(a, b + tile.group * b_elements, c, tile.row, tile.column, tile.end, 0, Plain{});
}
