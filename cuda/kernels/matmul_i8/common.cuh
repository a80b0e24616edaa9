// What kernels of the product of int8 matrices have in common: how a sum becomes a result. A is M rows of WORDS words of four numbers,
// B is N such rows.

#include "lib/launch.cuh"
#include "lib/product_order.cuh"

__device__ __forceinline__ float scaled(int sum, float left, float right) { return left * right * (float)sum; }

// Write a sum of a row, whose scale is `left`.
__device__ __forceinline__ void put(elem* __restrict__ c, const float* __restrict__ b_scale, unsigned row, unsigned col, float left,
                                    int sum) {
    if (row < M && col < N) c[(u64)row * N + col] = to_elem(scaled(sum, left, b_scale[col]));
}
