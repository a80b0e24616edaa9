// GEMM by warpgroups on 16-bit floats from tensor maps, sums in f32. The definition is in core/workloads/src/ops/matmul.

#include "lib/product_wgmma.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_wgmma(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                 const __grid_constant__ CUtensorMap c) {
    product_wgmma(a, b, c, Unchanged{});
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_wgmma_parts(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                       const __grid_constant__ CUtensorMap c) {
    product_wgmma(a, b, c, Sums{});
}
