// Grouped GEMM by warpgroups on 16-bit floats from tensor maps, sums in f32. The definition is in
// core/workloads/src/ops/grouped_matmul.

#include "lib/product_wgmma.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    grouped_matmul_wgmma(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                         const __grid_constant__ CUtensorMap c, const unsigned* __restrict__ tiles, elem* rows) {
    product_wgmma(a, b, c, Grouped(rows), GroupedTiles{reinterpret_cast<const uint4*>(tiles)});
}
