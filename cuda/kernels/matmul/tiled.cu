// Tiled GEMM on CUDA cores: tiles of A and B in shared memory, accumulators in registers. The definition is in
// core/workloads/src/ops/matmul.

#include "lib/product_tiled.cuh"

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
    matmul_tiled(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c) {
    product_tiled(a, b, c, Plain{});
}
