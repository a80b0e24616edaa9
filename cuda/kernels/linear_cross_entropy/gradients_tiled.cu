// Gradients from a part of the logits by tiles on CUDA cores. The definition is in
// core/workloads/src/ops/linear_cross_entropy.
//
// linear_cross_entropy_tiled_dlogits  C is the gradient of the logits of A with the rows of B from FIRST on
// linear_cross_entropy_tiled_dx       C is A times the rows of B from FIRST on, added to the sums of earlier parts
// linear_cross_entropy_tiled_dw       rows of C from FIRST on are A, transposed, times B

#include "lib/product_tiled.cuh"
#include "linear_cross_entropy/epilogue.cuh"

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
    linear_cross_entropy_tiled_dlogits(const elem* __restrict__ a, const elem* __restrict__ b,
                                      const unsigned* __restrict__ targets, const float* __restrict__ lse,
                                      const float* __restrict__ dloss, elem* __restrict__ c) {
    product_tiled(a, b + (u64)FIRST * K, c, Slope{targets, lse, dloss});
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
    linear_cross_entropy_tiled_dx(const elem* __restrict__ a, const elem* __restrict__ b, float* __restrict__ sums,
                                 elem* __restrict__ c) {
    product_tiled(a, b + (u64)FIRST * N, c, Added{sums});
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS)
    linear_cross_entropy_tiled_dw(const elem* __restrict__ a, const elem* __restrict__ b, elem* __restrict__ c) {
    product_tiled(a, b, c + (u64)FIRST * N, Plain{});
}
