// Grouped GEMM on CUDA cores: tiles of A and B in shared memory, accumulators in registers. The definition is in
// core/workloads/src/ops/grouped_matmul.

#include "grouped_matmul/place.cuh"
#include "lib/product_tiled.cuh"

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
    grouped_matmul_tiled(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                         const unsigned* __restrict__ tiles) {
    GroupedTile tile;
    if (!find_tile(tiles, flat_workgroup(), tile)) return;
    product_tile(a, b + tile.group * b_elements, c, tile.row, tile.column, tile.end, 0, Plain{});
}
