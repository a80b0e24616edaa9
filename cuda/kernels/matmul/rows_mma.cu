// GEMM of few rows of A on tensor cores, bound by the memory of B. The definition is in core/workloads/src/ops/matmul.

#include "lib/product_rows_mma.cuh"

extern "C" __global__ void __launch_bounds__(256, 2)
    matmul_rows_mma(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c) {
    product_rows_mma(a, b, c, Plain{});
}
