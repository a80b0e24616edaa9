// Epilogue of int8 GEMMs. A is M rows of WORDS words of four numbers, B is N such rows.

#include "lib/launch.cuh"
#include "lib/mma.cuh"
#include "lib/product_order.cuh"

__device__ __forceinline__ float scaled(int sum, float left, float right) { return left * right * (float)sum; }

// Stores a sum of a row with scale `left`.
__device__ __forceinline__ void store(elem* __restrict__ c, const float* __restrict__ b_scale, unsigned row, unsigned col, float left,
                                      int sum) {
    if (row < M && col < N) c[(u64)row * N + col] = to_elem(scaled(sum, left, b_scale[col]));
}

// Stores two neighbours, the first in an even column.
__device__ __forceinline__ void store2(elem* __restrict__ c, const float* __restrict__ b_scale, unsigned row, unsigned col,
                                        float left, int sum, int next) {
    if constexpr (N % 2 == 0) {
        if (row >= M || col >= N) return;
        const float2 right = *reinterpret_cast<const float2*>(b_scale + col);
        const float x = scaled(sum, left, right.x), y = scaled(next, left, right.y);
        elem* const to = c + (u64)row * N + col;
#if defined(ELEM_F32)
        *reinterpret_cast<float2*>(to) = make_float2(x, y);
#else
        *reinterpret_cast<unsigned*>(to) = pack(x, y);
#endif
    } else {
        store(c, b_scale, row, col, left, sum);
        store(c, b_scale, row, col + 1, left, next);
    }
}
