// Sums over the rows that a block processes at a time.

#include "lib/rows.cuh"

// Stores piece `at` of a row of `parts`: the sum over the threads with the same place in their rows. All threads of the block
// must call.
__device__ __forceinline__ void store_part(float* __restrict__ parts, const piece& mine, unsigned at) {
    piece sum = mine;
    if constexpr (rows_at_once > 1) {
        __shared__ piece of_threads[THREADS];
        of_threads[threadIdx.x] = mine;
        __syncthreads();
        if (threadIdx.x < LANES) {
#pragma unroll
            for (unsigned row = 1; row < rows_at_once; row++) {
#pragma unroll
                for (unsigned i = 0; i < WIDTH; i++) sum.at[i] += of_threads[row * LANES + threadIdx.x].at[i];
            }
        }
        __syncthreads();
    }
    if (threadIdx.x >= LANES || at >= row_pieces) return;
#pragma unroll
    for (unsigned i = 0; i < WIDTH; i++) parts[at * WIDTH + i] = sum.at[i];
}
