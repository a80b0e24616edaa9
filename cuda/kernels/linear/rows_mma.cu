// GEMM of few rows of A on tensor cores and its epilogue in one stage. The definition is in core/workloads/src/ops/linear.

#include "lib/product_rows_mma.cuh"
#include "linear/epilogue.cuh"

extern "C" __global__ void __launch_bounds__(256, 2)
    linear_rows_mma_bias(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                     const elem* __restrict__ bias) {
    product_rows_mma(a, b, c, Bias{bias});
}

extern "C" __global__ void __launch_bounds__(256, 2)
    linear_rows_mma_gelu(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                     const elem* __restrict__ bias) {
    product_rows_mma(a, b, c, BiasGelu{bias});
}

extern "C" __global__ void __launch_bounds__(256, 2)
    linear_rows_mma_residual(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                         const elem* __restrict__ bias, const elem* __restrict__ residual) {
    product_rows_mma(a, b, c, BiasGeluResidual{bias, residual});
}
