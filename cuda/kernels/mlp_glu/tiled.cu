// Tiled GEMM whose sums are multiplied by a function of the gate. The definition is in core/workloads/src/ops/mlp_glu.rs.

#include "lib/product_tiled.cuh"
#include "mlp_glu/epilogue.cuh"

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
    linear_tiled_silu_gated(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                           const elem* __restrict__ gate) {
    product_tiled(a, b, c, SiluGated{gate});
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
    linear_tiled_gelu_gated(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c,
                           const elem* __restrict__ gate) {
    product_tiled(a, b, c, GeluGated{gate});
}
