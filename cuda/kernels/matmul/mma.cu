// GEMM on tensor cores: warp-wide products of 16-bit floats, sums in f32. The definition is in core/workloads/src/ops/matmul.

#include "lib/product_mma.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    matmul_mma(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c) {
    product_mma(a, b, c, Plain{});
}
