// Sums over partial results of blocks: PARTS rows of PART_COLUMNS. A block has 32 neighbouring columns times DOWN threads that
// take every DOWN-th part.

#include "lib/launch.cuh"

// Sum of a column, for the first of its threads. All threads of the block must call.
__device__ __forceinline__ float parts_sum(const float* __restrict__ parts, unsigned column) {
    __shared__ float partial[DOWN][32];
    float sum = 0.0f;
    if (column < PART_COLUMNS) {
#pragma unroll 4
        for (unsigned part = threadIdx.y; part < PARTS; part += DOWN) sum += parts[(u64)part * PART_COLUMNS + column];
    }
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < DOWN; i++) total += partial[i][threadIdx.x];
    return total;
}
