// GEMM by warpgroups and its epilogue in one stage, from tensor maps. The definition is in core/workloads/src/ops/linear.

#include "lib/product_wgmma.cuh"
#include "linear/epilogue_pairs.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_wgmma_bias(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                        const __grid_constant__ CUtensorMap c, const elem* __restrict__ bias) {
    product_wgmma(a, b, c, BiasPairs{bias});
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_wgmma_gelu(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                        const __grid_constant__ CUtensorMap c, const elem* __restrict__ bias) {
    product_wgmma(a, b, c, GeluPairs{{bias}});
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_wgmma_residual(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                        const __grid_constant__ CUtensorMap c, const elem* __restrict__ bias,
                        const __grid_constant__ CUtensorMap residual) {
    product_wgmma(a, b, c, ResidualPairs{bias, residual});
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_wgmma_kept(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                        const __grid_constant__ CUtensorMap c, const elem* __restrict__ bias,
                        const __grid_constant__ CUtensorMap pre) {
    product_wgmma(a, b, c, KeptPairs{bias, pre});
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear_wgmma_slope(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                        const __grid_constant__ CUtensorMap c, const __grid_constant__ CUtensorMap pre,
                        const __grid_constant__ CUtensorMap hidden) {
    product_wgmma(a, b, c, SlopePairs{pre, hidden});
}
