// Tiled GEMM and its epilogue in one stage. The definition is in core/workloads/src/ops/linear.

#include "lib/product_tiled.cuh"
#include "linear/epilogue.cuh"

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
    linear_tiled_bias(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                      const elem* __restrict__ bias) {
    product_tiled(a, b, c, Bias{bias});
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
    linear_tiled_gelu(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                      const elem* __restrict__ bias) {
    product_tiled(a, b, c, BiasGelu{bias});
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
    linear_tiled_residual(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                          const elem* __restrict__ bias, const elem* __restrict__ residual) {
    product_tiled(a, b, c, BiasGeluResidual{bias, residual});
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
    linear_tiled_kept(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                      const elem* __restrict__ bias, elem* __restrict__ pre) {
    product_tiled(a, b, c, BiasGeluKept{bias, pre});
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
    linear_tiled_slope(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                       const elem* pre, elem* hidden) {
    product_tiled(a, b, c, Slope{pre, hidden});
}
