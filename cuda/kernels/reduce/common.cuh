// Reductions of two numbers, and of a block.

#include "lib/reduce.cuh"

__device__ __forceinline__ float joined(float a, float b) { return LARGEST ? maximum(a, b) : a + b; }

// All threads of the block must call.
__device__ __forceinline__ float of_block(float mine) {
    __shared__ float partial[THREADS / 32];
    return LARGEST ? block_max(mine, partial) : block_sum(mine, partial);
}
