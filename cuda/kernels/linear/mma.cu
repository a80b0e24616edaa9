// GEMM on tensor cores and its epilogue in one stage. The definition is in core/workloads/src/ops/linear.

#include "lib/product_mma.cuh"
#include "linear/epilogue.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    linear_mma_bias(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                      const elem* __restrict__ bias) {
    product_mma(a, b, c, Bias{bias});
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    linear_mma_gelu(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                      const elem* __restrict__ bias) {
    product_mma(a, b, c, BiasGelu{bias});
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    linear_mma_residual(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                          const elem* __restrict__ bias, const elem* __restrict__ residual) {
    product_mma(a, b, c, BiasGeluResidual{bias, residual});
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    linear_mma_kept(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                      const elem* __restrict__ bias, elem* __restrict__ pre) {
    product_mma(a, b, c, BiasGeluKept{bias, pre});
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    linear_mma_slope(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                       const elem* pre, elem* hidden) {
    product_mma(a, b, c, Slope{pre, hidden});
}
