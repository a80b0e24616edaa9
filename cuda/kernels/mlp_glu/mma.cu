// GEMM on tensor cores whose sums are multiplied by a function of the gate. The definition is in core/workloads/src/ops/mlp_glu.rs.

#include "lib/product_mma.cuh"
#include "mlp_glu/epilogue.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    linear_mma_silu_gated(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                           const elem* __restrict__ gate) {
    product_mma(a, b, c, SiluGated{gate});
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    linear_mma_gelu_gated(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                           const elem* __restrict__ gate) {
    product_mma(a, b, c, GeluGated{gate});
}
