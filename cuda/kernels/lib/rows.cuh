// Rows of COLUMNS elements, each shared by LANES neighbouring threads of a block of THREADS, both powers of two. Accesses have
// WIDTH neighbouring elements. WIDTH divides COLUMNS.

#include "lib/launch.cuh"
#include "lib/pieces.cuh"
#include "lib/reduce.cuh"

constexpr unsigned row_pieces = COLUMNS / WIDTH;
constexpr unsigned rows_at_once = THREADS / LANES;
constexpr unsigned row_warps = LANES < 32 ? 1 : LANES / 32;

// Reduces over the threads of a row. Every thread of the block must call, and gets the result of its row.
__device__ __forceinline__ float row_sum(float x) {
    if constexpr (LANES <= 32) return lanes_sum(x, LANES);
    __shared__ float partial[THREADS / 32];
    x = lanes_sum(x, 32);
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (unsigned warp = 0; warp < row_warps; warp++) total += partial[threadIdx.x / LANES * row_warps + warp];
    return total;
}

// Two sums with the barriers of one.
__device__ __forceinline__ float2 row_sums(float x, float y) {
    if constexpr (LANES <= 32) return make_float2(lanes_sum(x, LANES), lanes_sum(y, LANES));
    __shared__ float2 partial[THREADS / 32];
    const float2 mine = make_float2(lanes_sum(x, 32), lanes_sum(y, 32));
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = mine;
    __syncthreads();
    float2 total = make_float2(0.0f, 0.0f);
#pragma unroll
    for (unsigned warp = 0; warp < row_warps; warp++) {
        const float2 other = partial[threadIdx.x / LANES * row_warps + warp];
        total.x += other.x;
        total.y += other.y;
    }
    return total;
}

__device__ __forceinline__ float row_max(float x) {
    if constexpr (LANES <= 32) return lanes_max(x, LANES);
    __shared__ float partial[THREADS / 32];
    x = lanes_max(x, 32);
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
    __syncthreads();
    float top = negative_infinity();
#pragma unroll
    for (unsigned warp = 0; warp < row_warps; warp++) {
        top = maximum(top, partial[threadIdx.x / LANES * row_warps + warp]);
    }
    return top;
}
