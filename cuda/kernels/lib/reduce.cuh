// Sums and maxima over lanes of a warp, and over a block. A maximum is NaN where a number is.

#include "lib/elem.cuh"

// Reduces over groups of `width` neighbouring lanes of a warp (a power of two); every lane gets the result.
__device__ __forceinline__ float lanes_sum(float x, unsigned width) {
    for (unsigned step = width / 2; step > 0; step /= 2) {
        x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
    }
    return x;
}

__device__ __forceinline__ float lanes_max(float x, unsigned width) {
    for (unsigned step = width / 2; step > 0; step /= 2) {
        x = maximum(x, __shfl_xor_sync(0xFFFFFFFFu, x, step));
    }
    return x;
}

// Reduces over a one-dimensional block of whole warps; every thread gets the result. `partial` holds one float per warp.
__device__ __forceinline__ float block_sum(float x, float* partial) {
    x = lanes_sum(x, 32);
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
    __syncthreads();
    float total = 0.0f;
    for (unsigned warp = 0; warp < blockDim.x / 32; warp++) total += partial[warp];
    return total;
}

__device__ __forceinline__ float block_max(float x, float* partial) {
    x = lanes_max(x, 32);
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
    __syncthreads();
    float total = partial[0];
    for (unsigned warp = 1; warp < blockDim.x / 32; warp++) total = maximum(total, partial[warp]);
    return total;
}
