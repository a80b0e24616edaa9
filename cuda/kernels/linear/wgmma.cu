// GEMM by warpgroups and its epilogue in one stage, from tensor maps. The definition is in core/workloads/src/ops/linear.

#include "lib/product_wgmma.cuh"
#include "linear/epilogue.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_wgmma_bias(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                      const __grid_constant__ CUtensorMap c, const elem* __restrict__ bias) {
    product_wgmma(a, b, c, Bias{bias});
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_wgmma_gelu(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                      const __grid_constant__ CUtensorMap c, const elem* __restrict__ bias) {
    product_wgmma(a, b, c, BiasGelu{bias});
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_wgmma_residual(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                          const __grid_constant__ CUtensorMap c, const elem* __restrict__ bias, const elem* __restrict__ residual) {
    product_wgmma(a, b, c, BiasGeluResidual{bias, residual});
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_wgmma_kept(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                      const __grid_constant__ CUtensorMap c, const elem* __restrict__ bias, elem* __restrict__ pre) {
    product_wgmma(a, b, c, BiasGeluKept{bias, pre});
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_wgmma_slope(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                       const __grid_constant__ CUtensorMap c, const elem* pre, elem* hidden) {
    product_wgmma(a, b, c, Slope{pre, hidden});
}
